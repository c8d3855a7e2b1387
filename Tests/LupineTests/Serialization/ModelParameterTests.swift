import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// Models as parameters, whose names and dates an encoder decides.
@Suite(.timeLimit(.minutes(1))) struct ModelParameterTests {
  private struct Search: Encodable, Sendable {
    var firstPage = 1
    var changedSince = Date(timeIntervalSince1970: 0)
  }

  private let made = Locked(0)
  private static let query = "changed_since=1970-01-01T00%3A00%3A00Z&first_page=1"

  private var makeEncoder: @Sendable () -> JSONEncoder {
    { [made] in
      made.withLock { $0 += 1 }
      let encoder = JSONEncoder()
      encoder.keyEncodingStrategy = .convertToSnakeCase
      encoder.dateEncodingStrategy = .iso8601
      return encoder
    }
  }

  private var serializers: [any HTTPRequestSerializing] {
    var plain = HTTPRequestSerializer()
    plain.makeEncoder = makeEncoder
    var json = JSONRequestSerializer()
    json.makeEncoder = makeEncoder
    var list = PropertyListRequestSerializer()
    list.base.makeEncoder = makeEncoder
    return [plain, json, list]
  }

  /// In a query, alone and within arrays, and among the fields of a form with files. One encoder is made for each request.
  @Test(arguments: 0..<3) func queriesAndFields(_ index: Int) throws {
    let (serializer, url) = (serializers[index], "http://localhost/")
    let alone = try serializer.request(method: "GET", url: url, parameters: Search())
    #expect(alone.urlString == "\(url)?\(Self.query)")
    let listed = try serializer.request(method: "DELETE", url: url, parameters: ["s": [Search(), Search()]])
    #expect(listed.urlString.hasSuffix("s%5B%5D%5Bfirst_page%5D=1"))
    #expect(made.withLock { $0 } == 2)
    let form = try serializer.multipartRequest(method: "POST", url: url, parameters: Search()) { _ in }
    #expect(form.body.text?.contains("name=\"changed_since\"\r\n\r\n1970-01-01T00:00:00Z\r\n") == true)
    _ = try serializer.request(method: "GET", url: url, parameters: ["a": 1])
    #expect(made.withLock { $0 } == 3)
  }

  /// A form's body too; a bare date goes by its description, as without an encoder.
  @Test func forms() throws {
    let request = try serializers[0].request(method: "POST", url: "http://localhost/", parameters: Search())
    #expect(request.body.text == Self.query)
    let dated = try serializers[0].request(
      method: "POST", url: "http://localhost/", parameters: ["d": Date(timeIntervalSince1970: 0)])
    #expect(dated.body.text == "d=1970-01-01%2000%3A00%3A00%20%2B0000")
  }

  /// And those of a manager.
  @Test func calls() async throws {
    let route = ServerRoute("GET", "/search") { request, connection in
      try connection.respond(text: request.target)
    }
    try await withManager([route]) { manager, _ in
      manager.responseSerializer = HTTPResponseSerializer()
      for serializer in serializers {
        manager.requestSerializer = serializer
        let target = try await manager.get("search", as: Data.self, parameters: Search())
        #expect(target == Data("/search?\(Self.query)".utf8))
      }
    }
  }
}
