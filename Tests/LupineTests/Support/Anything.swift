import Foundation
import Lupine
import LupineTesting

/// What a request was like, as the route `/anything` tells it.
struct Anything: Codable, Equatable, Sendable {
  var method: String
  var path: String
  var arguments: [String: String]
  var headers: [String: String]
  var body: String
  var isChunked: Bool

  /// The parameters of a form.
  var form: [String: String] {
    var items = URLComponents()
    items.percentEncodedQuery = body
    return Dictionary((items.queryItems ?? []).map { ($0.name, $0.value ?? "") }) { first, _ in first }
  }
}

extension ServerRoute {
  /// `/anything` and what lies below: tells in JSON what the request was like.
  static func anything(_ path: String = "/anything") -> ServerRoute {
    ServerRoute(nil, path) { request, connection in
      let body = try connection.readBody()
      let told = Anything(
        method: request.method, path: request.path,
        arguments: Dictionary(request.queryItems.map { ($0.name, $0.value) }) { first, _ in first },
        headers: Dictionary(request.fields.map { ($0.name.lowercased(), $0.value) }) { $0 + "," + $1 },
        body: String(decoding: body, as: UTF8.self),
        isChunked: request.fields.has("Transfer-Encoding", token: "chunked"))
      try connection.respond(
        fields: ["Content-Type": "application/json"], body: [UInt8](JSONEncoder().encode(told)))
    }
  }

  /// The standard routes and those.
  static func api() -> [ServerRoute] { standard() + [.anything(), .anything("/v1/anything")] }
}

extension CallEnd {
  /// What `/anything` told.
  func anything() throws -> Anything {
    guard let value = value as? JSONValue else { throw error ?? CocoaError(.coderValueNotFound) }
    return try JSONDecoder().decode(Anything.self, from: JSONEncoder().encode(value))
  }
}
