import LupineRules
import LupineWire
import Testing

/// The pure half of the cache; `Cases/rfc9111.md` of LupineSessionTests has the rest.
@Suite struct CacheRulesTests {
  /// Vectors of another implementation.
  @Test(
    arguments: [
      ("", 0xEF46_DB37_51D8_E999), ("a", 0xD24E_C4F1_A98C_6E5B), ("abc", 0x44BC_2CF5_AD77_0999),
    ] as [(String, UInt64)]) func checksums(_ text: String, _ hash: UInt64)
  {
    let bytes = Array(text.utf8)
    let found = XXHash64.hash(bytes.span)
    #expect(found == hash)
  }

  @Test func checksumOfManyBytes() {
    let bytes = (0..<100).map { UInt8($0) }
    let found = XXHash64.hash(bytes.span)
    #expect(found == 0x6AC1_E580_3216_6597)
  }

  @Test func directivesAreRead() {
    #expect(CacheDirectives([]) == CacheDirectives())
    var wanted = CacheDirectives()
    wanted.maximumAge = 5
    wanted.isPublic = true
    #expect(CacheDirectives(["MAX-AGE=5 , Public"]) == wanted)
    #expect(CacheDirectives(["max-age=7", "max-age=3"]).maximumAge == 3)
    #expect(CacheDirectives(["max-age=\"1\\2\""]).maximumAge == 12)
    #expect(CacheDirectives(["max-stale"]).maximumStaleness == .any)
    #expect(CacheDirectives(["max-stale, max-stale=4"]).maximumStaleness == .seconds(4))
    #expect(CacheDirectives(["min-fresh=x"]).minimumFreshness == 2_147_483_648)
    #expect(CacheDirectives(["a=\"b, no-store\""]) == CacheDirectives())
    #expect(CacheDirectives(["a=\"b\\\", no-store"]).noStore)
    #expect(CacheDirectives(["no-store=1"]).noStore)
  }

  /// RFC 9111 section 5.2 has no blanks there; names are understood all the same.
  @Test(arguments: [" =", "= ", " = ", "\t=", "=\t"]) func blanksBesideTheSignMakeAValueUnreadable(_ sign: String) {
    #expect(CacheDirectives(["max-age\(sign)60"]).maximumAge == 0)
    #expect(CacheDirectives(["max-age\(sign)\"60\""]).maximumAge == 0)
    #expect(CacheDirectives(["max-stale\(sign)60"]).maximumStaleness == .seconds(0))
    #expect(CacheDirectives(["min-fresh\(sign)60"]).minimumFreshness == 2_147_483_648)
    #expect(CacheDirectives(["stale-while-revalidate\(sign)60"]).staleWhileRevalidate == 0)
    #expect(CacheDirectives(["stale-if-error\(sign)60"]).staleIfError == 0)
    let directives = CacheDirectives([" no-store\(sign)1 ,no-cache\(sign)\"X\" , private ,max-age=60 "])
    #expect(directives.noStore && directives.noCache && directives.isPrivate && directives.maximumAge == 60)
  }

  /// A quote without an end must not cost a scan for each one.
  @Test func manyQuotesAreReadOnce() {
    let text = "\"" + String(repeating: "\\\"", count: 200_000) + ",no-store"
    #expect(CacheDirectives([text]).noStore)
  }

  /// What a response varies by is kept, and looked at by each request for the same; what `Connection` names is looked for in each field.
  @Test func manyNamesAreNotKept() throws {
    func head(_ name: String, _ count: Int) throws -> ResponseHead {
      let half = (0..<count).map { "x-\($0 % (count / 2))" }.joined(separator: ", ")
      let rest = (count / 2..<count).map { "x-\($0)" }.joined(separator: ", ")
      return try ResponseHead(status: 200, fields: [("ETag", "\"v\""), (name, half), (name, rest)])
    }
    #expect(try VaryRule.names(head("Vary", VaryRule.maximumNames).fields)?.count == VaryRule.maximumNames)
    #expect(try VaryRule.names(head("Vary", VaryRule.maximumNames + 2).fields) == nil)
    for (count, isKept) in [(100, true), (130, false)] {
      let head = try head("Connection", count)
      let made = StoredResponse(key: "k", head: head, body: [], requestTime: 5, responseTime: 6, authorization: nil)
      #expect((made != nil) == isKept)
      let stored = try response([("ETag", "\"v\"")])
      let updated = stored.updated(by: head, requestTime: 7, responseTime: 8, key: "k", authorization: nil)
      #expect((updated != nil) == isKept)
    }
  }

  @Test func recordsReadBack() throws {
    let head = try ResponseHead(
      status: 200, reason: "Fine",
      fields: [("ETag", "\"v\""), ("Age", "3"), ("Set-Cookie", "a=b"), ("Connection", "X"), ("X", "1"), ("Y", "ü")])
    let response = try #require(
      StoredResponse(key: "k", head: head, body: [1, 2], requestTime: 5, responseTime: 6, authorization: nil))
    #expect(response.head.fields.pairs.map(\.name) == ["ETag", "Age", "Y"])
    let bytes = try #require(CacheRecord.response(response).encoded)
    let record = CacheRecord(decoding: bytes, key: "k")
    guard case .response(let read)? = record else { throw CacheFault() }
    #expect(read.head == response.head && read.body == [1, 2] && read.terms == response.terms)
    #expect(CacheRecord(decoding: bytes, key: "l") == nil)
    #expect(response.head(at: 16)?.fields.values(named: "age") == ["14"])
    let secret = StoredResponse(
      key: "k", head: head, body: [], requestTime: 5, responseTime: 6, authorization: "Bearer")
    #expect(CacheRecord.response(try #require(secret)).encoded == nil)
  }

  /// What is not UTF-8 is read as ISO-8859-1, and would be written as UTF-8.
  @Test(arguments: [("\"\u{FC}\"", true), ("W/\"\u{1F34E}\"", true), ("\"v\"", true), ("\"\u{0}\"", false)])
  func entityTagsGoBackAsTheyCame(_ tag: String, _ isText: Bool) throws {
    let value = tag.utf8.map { $0 == 0 ? 0xFC : $0 }
    let head = Array("HTTP/1.1 200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: ".utf8)
    let bytes = head + value + Array("\r\n\r\n".utf8)
    let response = try #require(
      StoredResponse(
        key: "k", head: ResponseHead(bytes: bytes.span), body: [], requestTime: 5, responseTime: 6, authorization: nil))
    let conditions = response.terms.conditions.map { "\($0.name): \($0.value)" }
    let date = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"
    #expect(conditions == (isText ? ["If-None-Match: \(tag)", date] : [date]))
    #expect(response.isConfirmed(by: response.head))
  }

  private func response(
    _ fields: [(name: String, value: String)], body: [UInt8] = []
  ) throws -> StoredResponse {
    let head = try ResponseHead(status: 200, fields: fields)
    return try #require(
      StoredResponse(key: "k", head: head, body: body, requestTime: 5, responseTime: 6, authorization: nil))
  }

  /// It was said to the request that the response came for; a 304 says it to the one that asked.
  @Test(arguments: [nil, "nextnonce=\"2\""]) func authenticationInfoIsNotStored(_ said: String?) throws {
    let kept = try response([("ETag", "\"v\""), ("authentication-info", "nextnonce=\"1\""), ("X", "y")])
    #expect(kept.head.fields.pairs.map(\.name) == ["ETag", "X"])
    let fields = [(name: "ETag", value: "\"v\"")] + (said.map { [(name: "Authentication-Info", value: $0)] } ?? [])
    let answer = try ResponseHead(status: 304, fields: fields)
    let updated = kept.updated(by: answer, requestTime: 7, responseTime: 8, key: "k", authorization: nil)
    let confirmed = try #require(updated)
    #expect(confirmed.head.fields.values(named: "authentication-info") == (said.map { [$0] } ?? []))
    let stored = StoredResponse(
      key: "k", head: confirmed.head, body: [], requestTime: 7, responseTime: 8, authorization: nil)
    let again = try #require(stored)
    #expect(again.head.fields.pairs.map(\.name) == ["X", "ETag"])
  }

  /// A body that came in chunks has no length of its own but the one that it has; with a coding, that is not the one it came with.
  @Test(arguments: [
    (["Transfer-Encoding: chunked"], ["Content-Length: 5"], false), (["X: y"], ["Content-Length: 4"], true),
    (["X: y"], ["Content-Length: five"], true), (["Content-Encoding: gzip"], ["Content-Length: 4"], false),
    (["X: y"], ["Content-Length: 4", "Content-Encoding: gzip"], false), (["X: y"], ["X: y"], false),
    (["Content-Length: 4", "Content-Encoding: gzip"], ["Content-Length: 4"], false),
    (["Content-Length: 4", "Content-Encoding: gzip"], ["Content-Length: 5"], true),
  ]) func headsTellOfTheLengthOfBodies(_ stored: [String], _ answer: [String], _ isDenied: Bool) throws {
    func fields(_ lines: [String]) -> [(name: String, value: String)] {
      lines.map { line in
        let parts = line.split(separator: ": ").map(String.init)
        return (parts[0], parts[1])
      }
    }
    let kept = try response(fields(stored), body: Array("hello".utf8))
    let head = try ResponseHead(status: 200, fields: fields(answer))
    #expect(kept.isDenied(byHead: head) == isDenied)
  }

  /// Validators are bytes: what looks the same, and means the same as text, is another one.
  @Test(arguments: [("ETag", "\"\u{E9}\"", "\"e\u{301}\""), ("ETag", "\u{E9}", "e\u{301}")])
  func validatorsAreBytes(_ name: String, _ own: String, _ other: String) throws {
    let kept = try response([(name, own)])
    let (same, another) = (
      try ResponseHead(status: 200, fields: [(name, own)]), try ResponseHead(status: 200, fields: [(name, other)])
    )
    #expect(!kept.isDenied(byHead: same) && kept.isConfirmed(by: same))
    #expect(kept.isDenied(byHead: another) && !kept.isConfirmed(by: another))
  }

  /// Who has a key is answered with what came for that, as the names in the key of what is stored tell.
  @Test(
    arguments: [
      ("f", false), ("f\n7\nx-api-key: a", true), ("f\n7\naccept: b\nx-api-key: a", true), ("f\n7\nx-api-key", false),
      ("f\n7\nx-api-key-2: a", false), ("f\n7\naccept: x-api-key: a", false), ("f\nx-api-key: a", false),
    ] as [(String, Bool)]) func whatCameForNobodyAnswersNoKey(_ key: String, _ isAnswer: Bool) throws
  {
    func kept(_ directives: String) throws -> StoredResponse {
      let head = try ResponseHead(status: 200, fields: [("Cache-Control", directives)])
      return try #require(
        StoredResponse(key: key, head: head, body: [], requestTime: 5, responseTime: 6, authorization: nil))
    }
    let request = CacheRequest(method: "GET", hasBody: false, fields: [("X-Api-Key", "a")])
    let (own, open) = (try kept("max-age=10"), try kept("public, max-age=10"))
    #expect(own.answers(request) == isAnswer && open.answers(request))
    #expect(own.answers(CacheRequest(method: "GET")))
    let marked = CacheRequest(method: "GET", hasBody: false, fields: [("X-Own", "a")]) { $0 == "x-own" }
    #expect(!own.answers(marked))
  }

  /// So are credentials, and keys.
  @Test func credentialsAndKeysAreBytes() throws {
    let head = try ResponseHead(status: 200, fields: [("Cache-Control", "max-age=10")])
    let (own, other) = ("Basic \u{E9}", "Basic e\u{301}")
    let kept = try #require(
      StoredResponse(key: own, head: head, body: [], requestTime: 5, responseTime: 6, authorization: own))
    func isAnswered(_ authorization: String?) -> Bool {
      var request = CacheRequest(method: "GET")
      request.authorization = authorization
      return kept.answers(request)
    }
    #expect(isAnswered(own) && !isAnswered(other) && !isAnswered(nil))
    let plain = try #require(
      StoredResponse(key: own, head: head, body: [], requestTime: 5, responseTime: 6, authorization: nil))
    let bytes = try #require(CacheRecord.response(plain).encoded)
    #expect(CacheRecord(decoding: bytes, key: own) != nil && CacheRecord(decoding: bytes, key: other) == nil)
  }

  /// So are hosts, whatever the case of ASCII letters: the Kelvin sign is no letter of a host, though its small letter is one.
  @Test(arguments: [("Kit.example", false), ("kit.example", false), ("\u{212A}it.example", true), ("it.example", true)])
  func hostsAreBytes(_ host: String, _ isAnother: Bool) {
    var request = CacheRequest(method: "GET", hasBody: false, fields: [("Host", host)])
    request.compareHost(with: "kit.example")
    #expect(request.isConditional == isAnother)
  }

  @Test func namesReadBack() throws {
    let record = CacheRecord.variants(key: "k", names: ["a", "b"], generation: .max)
    let bytes = try #require(record.encoded)
    guard case .variants(let key, let names, let generation)? = CacheRecord(decoding: bytes, key: nil) else {
      throw CacheFault()
    }
    #expect(key == "k" && names == ["a", "b"] && generation == .max)
  }

  /// The zone of an address says whose it is, though it is never sent; userinfo and fragment say nothing of what is
  /// stored.
  @Test func keysKnowZones() throws {
    func key(_ url: String) throws -> String {
      CacheKey.first(partition: "", isDecoded: true, url: try URLReader.read(url))
    }
    let first = try key("http://[fe80::1%25eth0]/x")
    let others = try [key("http://[fe80::1%25eth1]/x"), key("http://[fe80::1]/x")]
    #expect(Set(others + [first]).count == 3)
    #expect(try key("http://u:p@[fe80::1%25eth0]:80/x#f") == first)
  }

  private struct CacheFault: Error {}
}
