/// A path of a routed server, and what answers there.
public struct ServerRoute: Sendable {
  /// The method it is for; nil for every method. A GET route answers HEAD too.
  public var method: String?
  /// The path, matched exactly.
  public var path: String
  /// What answers.
  public var handler: LoopbackServer.Handler

  /// Makes a route.
  public init(_ method: String? = nil, _ path: String, handler: @escaping LoopbackServer.Handler) {
    self.method = method
    self.path = path
    self.handler = handler
  }
}

extension LoopbackServer {
  /// Starts a server that answers by path: 404 for an unknown one, 405 for a known one with another method.
  ///
  /// Earlier routes win. Throws as the other initialiser does.
  public convenience init(
    routes: [ServerRoute], tls: ServerTLS? = nil, address: LoopbackAddress = .ipv4,
    recording: RequestRecording = RequestRecording()
  ) throws(LoopbackError) {
    let table = Dictionary(grouping: routes) { $0.path }
    try self.init(tls: tls, address: address, recording: recording) { request, connection in
      guard let candidates = table[request.path] else { return try connection.respond(404, text: "Not found\n") }
      let match = candidates.first { route in
        route.method == nil || route.method == request.method || route.method == "GET" && request.method == "HEAD"
      }
      guard let match else {
        let allowed = candidates.compactMap { $0.method }.joined(separator: ", ")
        return try connection.respond(405, fields: ["Allow": allowed], text: "Method not allowed\n")
      }
      try match.handler(request, connection)
    }
  }
}
