import Foundation
import HTTPTypes
import Lupine
import Testing

/// The facts of AFHTTPRequestSerializationTests, by their names there, and what else is said of `HTTPRequestSerializer`.
@Suite struct HTTPRequestSerializationTests {
  private let serializer = HTTPRequestSerializer()
  private static let url = "http://example.com/"

  private struct Refusal: Error, Equatable { var number: Int }

  /// POST with parameters: a form.
  @Test func testThatAFHTTPRequestSerializationSerializesPOSTRequestsProperly() throws {
    let request = try Request(Self.url, method: .post)
    let serialized = try serializer.serialize(request, parameters: ["key": "value"])
    #expect(serialized.fields[.contentType] == "application/x-www-form-urlencoded")
    #expect(serialized.body.text == "key=value")
  }

  /// POST without parameters: an empty form, not nothing.
  @Test func testThatAFHTTPRequestSerializationSerializesPOSTRequestsProperlyWhenNoParameterIsProvided() throws {
    let request = try Request(Self.url, method: .post)
    let serialized = try serializer.serialize(request, parameters: nil)
    #expect(serialized.fields[.contentType] == "application/x-www-form-urlencoded")
    #expect(serialized.body.text == "")
  }

  /// GET with parameters: a query.
  @Test func testThatAFHTTPRequestSerialiationSerializesQueryParametersCorrectly() throws {
    let serialized = try serializer.serialize(try Request(Self.url), parameters: ["key": "value"])
    #expect(serialized.urlString == "http://example.com/?key=value")
    #expect(serialized.body.text == nil)
    #expect(serialized.fields[.contentType] == nil)
  }

  /// Nothing to say leaves no question mark.
  @Test func testThatEmptyDictionaryParametersAreProperlyEncoded() throws {
    let serialized = try serializer.serialize(try Request(Self.url), parameters: [String: String]())
    #expect(serialized.urlString == Self.url)
  }

  /// Reserved characters are escaped, but `/` and `?`.
  @Test func testThatAFHTTPRequestSerialiationSerializesURLEncodableQueryParametersCorrectly() throws {
    let serialized = try serializer.serialize(
      try Request(Self.url), parameters: ["key": " :#[]@!$&'()*+,;=/?"])
    #expect(
      serialized.urlString
        == "http://example.com/?key=%20%3A%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D/?")
  }

  /// What is escaped is escaped again.
  @Test func testThatAFHTTPRequestSerialiationSerializesURLEncodedQueryParametersCorrectly() throws {
    let serialized = try serializer.serialize(
      try Request(Self.url), parameters: ["key": "%20%21%22%23%24%25%26%27%28%29%2A%2B%2C%2F"])
    #expect(
      serialized.urlString
        == "http://example.com/?key=%2520%2521%2522%2523%2524%2525%2526%2527%2528%2529%252A%252B%252C%252F")
  }

  /// A closure writes the query as it likes.
  @Test func testThatAFHTTPRequestSerialiationSerializesQueryParametersCorrectlyFromQuerySerializationBlock() throws {
    var serializer = serializer
    serializer.queryStringSerialization = { _, parameters in
      (parameters as? [String: String])?.map { "\($0)**\($1)" }.joined(separator: "**")
    }
    let serialized = try serializer.serialize(try Request(Self.url), parameters: ["key": "value"])
    #expect(serialized.urlString == "http://example.com/?key**value")
    let post = try serializer.serialize(try Request(Self.url, method: .post), parameters: ["key": "value"])
    #expect(post.body.text == "key**value")
  }

  /// The closure is not called without parameters; nil from it is no query.
  @Test func theQueryClosureMayHaveNothingToSay() throws {
    var serializer = serializer
    serializer.queryStringSerialization = { _, _ in nil }
    #expect(try serializer.serialize(try Request(Self.url), parameters: 1).urlString == Self.url)
    #expect(try serializer.serialize(try Request(Self.url, method: .put), parameters: 1).body.text == "")
    serializer.queryStringSerialization = { _, _ in throw Refusal(number: 1) }
    #expect(try serializer.serialize(try Request(Self.url), parameters: nil).urlString == Self.url)
  }

  /// What the closure throws is thrown, identically.
  @Test func testQuerySerializationFailure() throws {
    var serializer = serializer
    serializer.queryStringSerialization = { _, _ in throw Refusal(number: 7) }
    #expect(throws: Refusal(number: 7)) {
      try serializer.request(method: "GET", url: Self.url, parameters: ["a": 1])
    }
  }

  /// A header is what it was set to.
  @Test func testThatHTTPHeaderValueCanBeRetrieved() {
    var serializer = serializer
    serializer.setValue("test value", forHeader: "test-header")
    #expect(serializer.value(forHeader: "test-header") == "test value")
    #expect(serializer.value(forHeader: "Test-Header") == "test value")
    #expect(serializer.headers["test-header"] == "test value")
  }

  /// A header that was never set is nil.
  @Test func testThatUnsetHTTPHeaderFieldIsNil() {
    #expect(serializer.value(forHeader: "unset") == nil)
    #expect(serializer.value(forHeader: "no token") == nil)
  }

  /// Nil removes a header.
  @Test func testThatHTTPHeaderValueCanBeSetToNil() {
    var serializer = serializer
    serializer.setValue("value", forHeader: "Field")
    serializer.setValue(nil, forHeader: "field")
    #expect(serializer.value(forHeader: "Field") == nil)
    #expect(serializer.headers["Field"] == nil)
  }

  /// The store does not know two spellings of a name; the request's own fields win.
  @Test func headersAreOnesWhateverTheirCase() throws {
    var serializer = serializer
    serializer.setValue("a", forHeader: "X-One")
    serializer.setValue("b", forHeader: "x-one")
    serializer.setValue("c", forHeader: "X-Two")
    #expect(serializer.headers.filter { $0.key.lowercased() == "x-one" }.map(\.value) == ["b"])
    let two = try #require(HTTPField.Name("x-two"))
    let request = try Request(Self.url, fields: [two: "own"])
    let serialized = try serializer.serialize(request, parameters: nil)
    #expect(serialized.fields[values: two] == ["own"])
    #expect(serialized.fields.contains { $0.name.rawName.lowercased() == "x-one" && $0.value == "b" })
  }

  /// Setting all headers takes the defaults away too.
  @Test func headersCanBeReplaced() throws {
    var serializer = serializer
    serializer.headers = ["A": "1"]
    #expect(serializer.headers == ["A": "1"])
    #expect(try serializer.request(method: "GET", url: Self.url).fields.count == 1)
  }

  /// A name or value that cannot be sent refuses the request, and nothing else.
  @Test(arguments: [("bad name", "v"), ("", "v"), ("X", "a\r\nB: c"), ("X", "a\u{0}")])
  func headersThatBreakTheFramingAreRefused(name: String, value: String) throws {
    var serializer = serializer
    serializer.setValue(value, forHeader: name)
    let error = #expect(throws: SerializationError.self) { try serializer.request(method: "GET", url: Self.url) }
    #expect(error?.code == .requestSerializationFailed)
    serializer.setValue(nil, forHeader: name)
    _ = try serializer.request(method: "GET", url: Self.url)
  }

  /// Serializers are values: a thousand tasks that set headers share nothing.
  @Test func testThatHTTPHeaderFieldsCanBeSetConcurrently() async {
    let serializer = serializer
    let values = await withTaskGroup(of: String?.self) { group in
      for number in 0..<1000 {
        group.addTask {
          var copy = serializer
          copy.setValue("\(number)", forHeader: "X-Number")
          return copy.value(forHeader: "X-Number")
        }
      }
      return await group.reduce(into: Set<String?>()) { $0.insert($1) }
    }
    #expect(values.count == 1000)
    #expect(serializer.value(forHeader: "X-Number") == nil)
  }

  /// The public function that makes queries.
  @Test func testQueryStringSerializationCanSerializeStringsWithReservedCharacters() throws {
    #expect(try queryString(from: ["key": "value", "key1": "value&"]) == "key=value&key1=value%26")
  }

  /// The public function that escapes.
  @Test func testPercentEscapingString() {
    #expect(percentEscaped(":#[]@!$&'()*+,;=?/") == "%3A%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D?/")
    #expect(percentEscaped("") == "")
    let plain = "ABCXYZabcxyz0189-._~/?"
    #expect(percentEscaped(plain) == plain)
  }

  /// Characters of many code units come through whole, wherever a batch of fifty would end.
  @Test func testPercentEscapingStringWithSkinTones() {
    let family = String(repeating: "👴🏿👷🏻👮🏽", count: 50)
    let expected = "%F0%9F%91%B4%F0%9F%8F%BF%F0%9F%91%B7%F0%9F%8F%BB%F0%9F%91%AE%F0%9F%8F%BD"
    #expect(percentEscaped(family) == String(repeating: expected, count: 50))
    #expect(percentEscaped(family).removingPercentEncoding == family)
  }

  static let urls: [(url: String, query: String)] = [
    ("http://h/p", "http://h/p?a=b"), ("http://h", "http://h/?a=b"), ("http://h/p?", "http://h/p?a=b"),
    ("http://h/p?x=1", "http://h/p?x=1&a=b"), ("http://h/p#f", "http://h/p?a=b#f"),
    ("http://h/p?x#f", "http://h/p?x&a=b#f"), ("http://h/p?#f", "http://h/p?a=b#f"),
  ]

  /// The query follows what there is, begins an empty one, and stays before the fragment.
  @Test(arguments: urls) func queriesAreAppended(url: String, expected: String) throws {
    let request = try serializer.request(method: "GET", url: url, parameters: ["a": "b"])
    #expect(request.url?.absoluteString == expected)
  }

  /// What a closure writes cannot leave the query.
  @Test func queriesOfAClosureStayQueries() throws {
    var serializer = serializer
    serializer.queryStringSerialization = { _, text in text as? String }
    #expect(
      try serializer.request(method: "GET", url: "http://h/", parameters: "a#b c").urlString == "http://h/?a%23b%20c")
    for text in ["a\r\nb", String(repeating: "a", count: 70_000)] {
      let error = #expect(throws: SerializationError.self) {
        try serializer.request(method: "GET", url: "http://h/", parameters: text)
      }
      #expect(error?.code == .requestSerializationFailed)
    }
  }

  /// Which methods have their parameters in the URL is a setting; the request's method is upper-cased for it, and sent as it is.
  @Test func methodsAreComparedInUpperCase() throws {
    var serializer = serializer
    let request = try serializer.request(method: "get", url: Self.url, parameters: ["a": 1])
    #expect(request.method.rawValue == "get" && request.urlString.hasSuffix("?a=1"))
    for method in ["GET", "HEAD", "DELETE"] {
      #expect(try serializer.request(method: method, url: Self.url, parameters: ["a": 1]).urlString.hasSuffix("?a=1"))
    }
    serializer.methodsEncodingParametersInURL = ["GET"]
    #expect(try serializer.request(method: "DELETE", url: Self.url, parameters: ["a": 1]).body.text == "a=1")
    serializer.methodsEncodingParametersInURL = ["DELETE"]
    #expect(try serializer.request(method: "GET", url: Self.url, parameters: ["a": 1]).body.text == "a=1")
    #expect(try serializer.request(method: "get", url: Self.url, parameters: ["a": 1]).body.text == "a=1")
    serializer.methodsEncodingParametersInURL.insert("GET")
    #expect(try serializer.request(method: "GET", url: Self.url, parameters: ["a": 1]).urlString.hasSuffix("?a=1"))
  }

  /// A content type of the request's own stays.
  @Test func contentTypesOfRequestsStay() throws {
    let request = try Request(Self.url, method: .put, fields: [.contentType: "text/plain"])
    #expect(try serializer.serialize(request, parameters: ["a": 1]).fields[values: .contentType] == ["text/plain"])
  }

  /// The body is in the encoding asked for; what it cannot express is an error.
  @Test func bodiesAreEncoded() throws {
    var serializer = serializer
    serializer.stringEncoding = .utf16BigEndian
    let request = try serializer.request(method: "POST", url: Self.url, parameters: ["a": 1])
    #expect(request.body.text == "\0a\0=\01")
    serializer.stringEncoding = .ascii
    serializer.queryStringSerialization = { _, _ in "ü" }
    #expect(throws: SerializationError.self) {
      try serializer.request(method: "POST", url: Self.url, parameters: ["a": 1])
    }
  }

  /// What cannot be fetched is refused, not asserted.
  @Test func badRequestsAreRefused() {
    for (method, url, code) in [
      ("GET", "no url", SessionError.Code.badURL), ("GET", "", .badURL), ("G T", Self.url, .badRequest),
      ("", Self.url, .badRequest),
    ] {
      let error = #expect(throws: SessionError.self) { try serializer.request(method: method, url: url) }
      #expect(error?.code == code)
    }
  }

  /// RFC 7617 and RFC 6750.
  @Test func authorizationIsSetAndCleared() throws {
    var serializer = serializer
    try serializer.setAuthorization(username: "Aladdin", password: "open:sésame")
    #expect(serializer.value(forHeader: "Authorization") == "Basic QWxhZGRpbjpvcGVuOnPDqXNhbWU=")
    try serializer.setAuthorization(bearerToken: "abc.def-_~+/==")
    #expect(serializer.value(forHeader: "authorization") == "Bearer abc.def-_~+/==")
    for (user, password) in [("a:b", "c"), ("a\n", "c"), ("a", "c\u{7F}")] {
      #expect(throws: SerializationError.self) { try serializer.setAuthorization(username: user, password: password) }
    }
    for token in ["", "a b", "ü", "a\r\nX: y"] {
      #expect(throws: SerializationError.self) { try serializer.setAuthorization(bearerToken: token) }
    }
    #expect(serializer.value(forHeader: "Authorization") == "Bearer abc.def-_~+/==")
    serializer.clearAuthorization()
    #expect(serializer.value(forHeader: "Authorization") == nil)
  }

  /// Settings are applied by `request`, and only those that are set.
  @Test func settingsAreApplied() throws {
    var serializer = serializer
    let plain = try serializer.request(method: "GET", url: Self.url)
    #expect(plain.timeoutInterval == nil && plain.totalTimeout == nil && plain.handlesCookies)
    #expect(plain.networkServiceType == nil && plain.allowsCellularAccess)
    serializer.timeoutInterval = .seconds(3)
    serializer.totalTimeout = .seconds(30)
    serializer.handlesCookies = false
    serializer.networkServiceType = .video
    serializer.cachePolicy = .returnCacheDataElseLoad
    serializer.allowsCellularAccess = false
    let copy = serializer
    let request = try copy.request(method: "GET", url: Self.url)
    #expect(request.timeoutInterval == .seconds(3) && request.totalTimeout == .seconds(30) && !request.handlesCookies)
    #expect(request.networkServiceType == .video && !request.allowsCellularAccess)
    #expect(plain.cachePolicy == nil && request.cachePolicy == .returnCacheDataElseLoad)
    let own = try copy.serialize(try Request(Self.url), parameters: nil)
    #expect(own.timeoutInterval == nil && own.handlesCookies)
  }
}
