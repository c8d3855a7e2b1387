/// What a `LoopbackServer` remembers of the requests it served.
public struct RequestRecording: Sendable, Equatable {
  /// How many requests are kept; older ones are forgotten first. 0 keeps none, which is right for benchmarks.
  public var requestLimit: Int
  /// How many bytes of each body are kept.
  public var bodyLimit: Int

  /// Default: 10,000 requests with at most 1 MiB of each body.
  public init(requestLimit: Int = 10_000, bodyLimit: Int = 1 << 20) {
    self.requestLimit = requestLimit
    self.bodyLimit = bodyLimit
  }

  /// Keeps nothing.
  public static let none = RequestRecording(requestLimit: 0, bodyLimit: 0)
}

/// An HTTP/1.1 server on the loopback interface, for tests, demonstrations and benchmarks.
///
/// Each connection has a thread of its own, on which the handler is called for one request after the other; it may block.
/// A handler that returns without a response is answered with 500; one that throws ends the connection.
///
/// ```swift
/// let server = try LoopbackServer { request, connection in
///   try connection.respond(text: "You asked for \(request.path)")
/// }
/// defer { server.shutdown() }
/// let url = server.url("/anything")
/// ```
public final class LoopbackServer: Sendable {
  /// Answers one request.
  public typealias Handler = @Sendable (ServerRequest, ServerConnection) throws -> Void

  private let listener: Listener
  private let record: ServerRecord
  private let isSecure: Bool

  /// Starts a server on a port that the system chooses, with TLS if `tls` is given.
  ///
  /// Throws `LoopbackError.system` when it cannot bind, `.pathTooLong` for a Unix path, `.tls` for an identity that OpenSSL refuses.
  public init(
    tls: ServerTLS? = nil, address: LoopbackAddress = .ipv4, recording: RequestRecording = RequestRecording(),
    handler: @escaping Handler
  ) throws(LoopbackError) {
    var context: TLSServerContext?
    if let tls { context = try TLSServerContext(tls) }
    let record = ServerRecord(recording)
    listener = try Listener(address) { [context] connection in
      ConnectionRunner.run(connection, context, record, handler)
    }
    self.record = record
    isSecure = tls != nil
  }

  deinit {
    listener.shutdown()
  }

  /// The port, 0 for a Unix socket.
  public var port: Int { Int(listener.port) }

  /// The address it listens on.
  public var address: LoopbackAddress { listener.address }

  /// The URL of a path on this server. With TLS over IPv4 the host is `localhost`, else the address; a Unix socket gives `localhost` without port.
  public func url(_ path: String = "/", host: String? = nil) -> String {
    ServerURL.make(isSecure: isSecure, listener, path, host)
  }

  /// Every request, in the order in which their heads arrived; bodies as far as they were read.
  public var recordedRequests: [ServerRequest] { record.requests }

  /// Waits until `count` requests have arrived in all, and returns those recorded; throws `misuse` after `seconds` without them.
  public func waitForRequests(_ count: Int, seconds: Double = 10) throws(LoopbackError) -> [ServerRequest] {
    try record.wait(count, seconds)
  }

  /// Requests whose head arrived, also those no longer recorded.
  public var requestCount: Int { record.requestCount }

  /// Connections accepted so far.
  public var connectionCount: Int { listener.connectionCount }

  /// Connections open now.
  public var openConnectionCount: Int { listener.openConnectionCount }

  /// What TLS negotiated, by connection number; connections whose handshake failed are absent.
  public var tlsSummaries: [Int: TLSSummary] { record.tlsSummaries }

  /// What went wrong on connections, in order: malformed requests, failed handshakes, handlers that threw. Peers that hung up are not listed.
  public var problems: [String] { record.problems }

  /// Ends every connection that is open now, as a crashing server would, and goes on accepting.
  public func dropConnections() { listener.interruptConnections() }

  /// Stops accepting, ends every connection, and returns when every thread has ended. Calling it again does nothing.
  ///
  /// Reads, writes and stalls end at once; a closure that waits for something else delays it.
  public func shutdown() { listener.shutdown() }
}

/// What a server remembers; shared by its threads.
final class ServerRecord: Sendable {
  private struct State {
    /// The last of them, that of index `n` at the place `n` modulo the limit: a server under load moves none.
    var kept: [ServerRequest] = []
    var count = 0

    var requests: [ServerRequest] {
      guard count > kept.count, !kept.isEmpty else { return kept }
      let first = count % kept.count
      return Array(kept[first...] + kept[..<first])
    }

    var tlsSummaries: [Int: TLSSummary] = [:]
    var problems: [String] = []
  }

  let recording: RequestRecording
  private let state = Monitor(State())

  init(_ recording: RequestRecording) { self.recording = recording }

  var requests: [ServerRequest] { state.withLock { $0.requests } }
  var requestCount: Int { state.withLock { $0.count } }
  var tlsSummaries: [Int: TLSSummary] { state.withLock { $0.tlsSummaries } }
  var problems: [String] { state.withLock { $0.problems } }

  /// Adds a request whose head arrived; returns its index for `update`.
  func add(_ request: ServerRequest) -> Int {
    state.withLock { state in
      let index = state.count
      state.count += 1
      if state.kept.count < recording.requestLimit {
        state.kept.append(request)
      } else if recording.requestLimit > 0 {
        state.kept[index % recording.requestLimit] = request
      }
      return index
    }
  }

  func update(_ index: Int, _ request: ServerRequest) {
    guard recording.requestLimit > 0 else { return }
    state.withLock { state in
      // One that was forgotten meanwhile has another one in its place.
      guard index >= state.count - state.kept.count else { return }
      state.kept[index % recording.requestLimit] = request
    }
  }

  func add(_ summary: TLSSummary, connection: Int) { state.withLock { $0.tlsSummaries[connection] = summary } }

  func add(problem: String) { state.withLock { $0.problems.append(problem) } }

  func wait(_ count: Int, _ seconds: Double) throws(LoopbackError) -> [ServerRequest] {
    let requests = state.wait(seconds: seconds) { $0.count >= count ? $0.requests : nil }
    guard let requests else { throw .misuse("\(requestCount) requests of \(count) came in \(seconds) s") }
    return requests
  }
}

/// URLs of loopback servers.
enum ServerURL {
  static func make(isSecure: Bool, _ listener: Listener, _ path: String, _ host: String?) -> String {
    let scheme = isSecure ? "https" : "http"
    switch listener.address {
    case .ipv4: return "\(scheme)://\(host ?? (isSecure ? "localhost" : "127.0.0.1")):\(listener.port)\(path)"
    case .ipv6: return "\(scheme)://\(host ?? "[::1]"):\(listener.port)\(path)"
    case .unix: return "\(scheme)://\(host ?? "localhost")\(path)"
    }
  }
}

/// Runs one connection of a `LoopbackServer` on its thread.
enum ConnectionRunner {
  /// What a peer may still send after our last byte before we stop listening.
  private static let drainLimit = 16 << 20

  static func run(
    _ accepted: AcceptedConnection, _ context: TLSServerContext?, _ record: ServerRecord,
    _ handler: LoopbackServer.Handler
  ) {
    let stream = ConnectionStream(accepted)
    do {
      if let context {
        try stream.startTLS(context)
        if let summary = stream.tlsSummary { record.add(summary, connection: accepted.number) }
      }
      try serve(stream, accepted.number, record, handler)
    } catch LoopbackError.peerClosed, LoopbackError.peerReset {
      // The peer's right.
    } catch {
      record.add(problem: "connection \(accepted.number): \(error)")
    }
  }

  private static func serve(
    _ stream: ConnectionStream, _ number: Int, _ record: ServerRecord, _ handler: LoopbackServer.Handler
  ) throws {
    var connection: ServerConnection?
    for requestNumber in 1... {
      var reader = RequestReader()
      let next: ServerRequest?
      do throws(LoopbackError) {
        next = try reader.readHead(stream, connection: number, request: requestNumber)
      } catch {
        refuse(stream, error)
        throw error
      }
      guard let request = next else { return stream.finishSending() }
      if let connection {
        connection.begin(request, reader)
      } else {
        connection = ServerConnection(
          stream, number: number, bodyLimit: record.recording.bodyLimit, first: request, reader: reader)
      }
      guard let connection else { return }
      let index = record.add(connection.request)
      connection.onBodyEnd = { record.update(index, $0) }
      do {
        try handler(request, connection)
        if !connection.responseIsComplete, !connection.isAborted {
          try connection.respond(500, text: "The handler gave no response.")
        }
        if !connection.isAborted, !connection.closes, !connection.reader.isAtEnd {
          while try connection.withBodyPart({ $0 != nil }) {}
        }
      } catch {
        if connection.request.bodyLength > 0 { record.update(index, connection.request) }
        throw error
      }
      if connection.request.bodyLength > 0 { record.update(index, connection.request) }
      if connection.isAborted { return }
      if connection.closes {
        stream.finishSending()
        return stream.drain(limit: drainLimit)
      }
    }
  }

  /// Tells a client that its request makes no sense, then closes.
  private static func refuse(_ stream: ConnectionStream, _ error: LoopbackError) {
    guard case .malformedRequest(let text) = error else { return }
    let body = Array((text + "\n").utf8)
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Length: \(body.count)\r\nConnection: close\r\n\r\n"
    try? stream.send(Array(head.utf8) + body)
    stream.finishSending()
    stream.drain(limit: drainLimit)
  }
}
