import LupineRules
import LupineTestSupport
import Testing

/// One case of `Cases/cookie-store.md`; the file says how it is written.
struct CookieStoreCase: Sendable, CustomStringConvertible {
  var name: String
  var steps: [String] = []

  var description: String { name }

  static func all() throws -> [CookieStoreCase] {
    var cases: [CookieStoreCase] = []
    for line in try CaseFile.lines("cookie-store.md") {
      if line.hasPrefix("### ") {
        cases.append(CookieStoreCase(name: String(line.dropFirst(4))))
      } else if var last = cases.popLast() {
        if !line.isEmpty, !line.hasPrefix("#") { last.steps.append(String(line)) }
        cases.append(last)
      }
    }
    return cases
  }
}

@Suite struct CookieStoreTests {
  private struct Play {
    var store: CookieStore
    var now = cookieNow
    var document: ParsedURL?
    var acceptance = CookieAcceptance.onlyFromMainDocumentDomain

    mutating func carryOut(_ step: String) throws {
      let text = String(decoding: try CaseText.unescape(Substring(step)), as: UTF8.self)
      let parts = text.split(separator: "|", maxSplits: 1, omittingEmptySubsequences: false)
      let words = parts[0].split(separator: " ").map(String.init)
      let rest = parts.count == 2 ? String(parts[1].drop { $0 == " " }) : ""
      let url = try words.last.flatMap { $0.hasPrefix("http") ? try URLReader.read($0) : nil }
      switch words[0] {
      case "set", "refuse":
        let context = CookieContext(url: try #require(url), mainDocument: document)
        let refusals = store.receive([Array(rest.utf8)], from: context, acceptance: acceptance, now: now)
        let expected = words[0] == "set" ? [] : [words[1].replacing("~", with: " ")]
        #expect(refusals.map { SetCookieTests.reason($0) } == expected, "\(step)")
      case "get":
        let context = CookieContext(url: try #require(url), mainDocument: document)
        let field = store.field(for: context, now: now)
        #expect(field ?? "" == rest, "\(step)")
      case "wait": now = HTTPDate(seconds: now.seconds + (try #require(Int64(words[1]))))
      case "document": document = url
      case "policy":
        acceptance = words[1] == "main" ? .onlyFromMainDocumentDomain : words[1] == "never" ? .never : .always
      case "count": #expect(store.count == Int(words[1]), "\(step)")
      default: Issue.record("\(step)")
      }
    }
  }

  @Test(arguments: try CookieStoreCase.all()) func plays(_ one: CookieStoreCase) throws {
    var play = Play(store: CookieStore(suffixes: try PublicSuffixTests.list.get()))
    for step in one.steps { try play.carryOut(step) }
    #expect(play.store.records(play.now).count <= play.store.count)
  }

  @Test func thereAreEnoughCases() throws {
    let cases = try CookieStoreCase.all()
    #expect(cases.count >= 40)
    #expect(cases.allSatisfy { !$0.steps.isEmpty })
  }

  private func store() throws -> CookieStore { CookieStore(suffixes: try PublicSuffixTests.list.get()) }

  private func set(_ store: inout CookieStore, _ value: String, _ url: String, now: HTTPDate = cookieNow) throws {
    let context = CookieContext(url: try URLReader.read(url))
    #expect(store.receive([Array(value.utf8)], from: context, now: now).isEmpty, "\(value)")
  }

  private func expect(
    _ names: [String], of store: inout CookieStore, _ url: String, now: HTTPDate = cookieNow,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let selected = store.select(for: CookieContext(url: try URLReader.read(url)), now: now)
    #expect(selected.map(\.name) == names, sourceLocation: sourceLocation)
  }

  /// Of one registrable domain, whatever its hosts are called: expired ones go, then those that are not Secure, then the least recently used.
  @Test func limitOfADomain() throws {
    var store = try store()
    for index in 0..<CookieStore.domainLimit {
      let attributes = index < 100 ? "; Secure" : index == 150 ? "; Max-Age=5" : ""
      try set(&store, "c\(index)=1; Path=/\(index)" + attributes, "https://h\(index % 7).a.com/")
    }
    #expect(store.count == 180)
    let later = HTTPDate(seconds: cookieNow.seconds + 10)
    try set(&store, "new1=1", "https://x.a.com/", now: later)
    #expect(!store.records(cookieNow).contains { $0.name == "c150" })
    #expect(store.count == 180)
    // The oldest that is not Secure is used, so the next one goes.
    try expect(["c100"], of: &store, "https://h\(100 % 7).a.com/100", now: later)
    try set(&store, "new2=1", "https://x.a.com/", now: later)
    let left = Set(store.records(later).map(\.name))
    #expect(left.contains("c100") && !left.contains("c101") && left.contains("c0") && left.count == 180)
    // Another domain is not harmed.
    try set(&store, "other=1", "https://b.com/", now: later)
    #expect(store.count == 181)
  }

  @Test func onlySecureOnesAreLeft() throws {
    var store = try store()
    for index in 0...CookieStore.domainLimit { try set(&store, "c\(index)=1; Secure", "https://a.com/") }
    let left = store.records(cookieNow).map(\.name)
    #expect(left.count == 180 && !left.contains("c0") && left.contains("c1"))
    // Set by whoever is on the way.
    try set(&store, "z=1", "http://x.a.com/")
    #expect(store.records(cookieNow).map(\.name) == left)
  }

  @Test func limitInAll() throws {
    var store = try store()
    for index in 0..<CookieStore.totalLimit { try set(&store, "c=1", "https://h\(index).com/") }
    #expect(store.count == 3_000)
    try expect(["c"], of: &store, "https://h0.com/")
    // The 101 that were not used for the longest time make room.
    try set(&store, "c=1", "https://another.com/")
    #expect(store.count == 2_900)
    try expect(["c"], of: &store, "https://h0.com/")
    try expect([], of: &store, "https://h1.com/")
    try expect([], of: &store, "https://h101.com/")
    try expect(["c"], of: &store, "https://h102.com/")
    try expect(["c"], of: &store, "https://another.com/")
  }

  /// Cookies that were sent together were used at one time: of them no more go than have to, the oldest first.
  @Test func limitInAllPartsThoseThatWereSentTogether() throws {
    var store = try store()
    for index in 0..<CookieStore.domainLimit { try set(&store, "c\(index)=1", "https://a.com/") }
    try expect((0..<CookieStore.domainLimit).map { "c\($0)" }, of: &store, "https://a.com/")
    for index in 0...CookieStore.totalLimit - CookieStore.domainLimit {
      try set(&store, "c=1", "https://h\(index).com/")
    }
    #expect(store.count == CookieStore.roomyTotal)
    try expect((101..<CookieStore.domainLimit).map { "c\($0)" }, of: &store, "https://a.com/")
  }

  @Test func expiredOnesMakeRoomFirst() throws {
    var store = try store()
    for index in 0..<CookieStore.totalLimit {
      try set(&store, index == 1500 ? "c=1; Max-Age=5" : "c=1", "https://h\(index).com/")
    }
    let later = HTTPDate(seconds: cookieNow.seconds + 10)
    try set(&store, "c=1", "https://another.com/", now: later)
    #expect(store.count == 3_000)
    try expect(["c"], of: &store, "https://h0.com/", now: later)
    try expect([], of: &store, "https://h1500.com/", now: later)
  }

  /// curl CVE-2022-32205, Go CVE-2025-58186: one response fills neither the store nor the next request.
  @Test func limitOfAResponse() throws {
    var store = try store()
    let context = CookieContext(url: try URLReader.read("https://a.com/"))
    let values = (0..<500).map { Array("c\($0)=1".utf8) }
    let refusals = store.receive(values, from: context, now: cookieNow)
    #expect(refusals == [.tooMany(limit: 50)])
    #expect(store.count == 50)
    let all = store.receive(values, from: context, atMost: 0, now: cookieNow)
    #expect(all == [.tooMany(limit: 0)])
    for round in 1..<10 {
      store.receive(values.map { $0 + Array("\(round)".utf8) }, from: context, now: cookieNow)
      store.receive((0..<50).map { Array("r\(round)x\($0)=1".utf8) }, from: context, now: cookieNow)
    }
    #expect(store.count == CookieStore.domainLimit)
    let field = store.field(for: context, now: cookieNow) ?? ""
    #expect(field.split(separator: ";").count == CookieStore.sentLimit)
  }

  @Test func removing() throws {
    var store = try store()
    try set(&store, "a=1", "https://a.com/")
    try set(&store, "b=1; Max-Age=100", "https://a.com/")
    let record = try #require(store.records(cookieNow).first)
    let (first, second) = (store.remove(record), store.remove(record))
    #expect(first && !second)
    #expect(store.count == 1)
    store.removeAll { $0.expiry == nil }
    #expect(store.count == 1)
    store.removeAll { _ in true }
    #expect(store.isEmpty)
  }

  struct Given: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var refusal: CookieRefusal?
    var change: @Sendable (inout CookieRecord) -> Void
  }

  static let given: [Given] = [
    Given(testDescription: "as it is", refusal: nil) { _ in },
    Given(testDescription: "nothing", refusal: .empty) { ($0.name, $0.value) = ("", "") },
    Given(testDescription: "too long", refusal: .tooLong(count: 4098, limit: 4096)) {
      $0.value = String(repeating: "v", count: 4097)
    },
    Given(testDescription: "line end", refusal: .controlByte(10)) { $0.value = "a\nb" },
    Given(testDescription: "line end in the name", refusal: .controlByte(13)) { $0.name = "a\r\nX: y" },
    Given(testDescription: "control byte in the path", refusal: .controlByte(0)) { $0.path = "/\0" },
    Given(testDescription: "two cookies in one", refusal: .ambiguous) { $0.value = "a; b=c" },
    Given(testDescription: "equals in the name", refusal: .ambiguous) { $0.name = "a=b" },
    Given(testDescription: "space at the end", refusal: .ambiguous) { $0.value = "a " },
    Given(testDescription: "space at the end of the path", refusal: .ambiguous) { $0.path = "/a " },
    Given(testDescription: "semicolon in the name", refusal: .ambiguous) { $0.name = "a;b" },
    Given(testDescription: "semicolon in the path", refusal: nil) { $0.path = "/a;v=1" },
    Given(testDescription: "relative path", refusal: .invalidPath) { $0.path = "x" },
    Given(testDescription: "no path", refusal: .invalidPath) { $0.path = "" },
    Given(testDescription: "long path", refusal: .pathTooLong(count: 1025, limit: 1024)) {
      $0.path = "/" + String(repeating: "p", count: 1024)
    },
    Given(testDescription: "no domain", refusal: .invalidDomain) { $0.domain = "" },
    Given(testDescription: "no host name", refusal: .invalidDomain) { $0.domain = "a..com" },
    Given(testDescription: "suffix", refusal: .publicSuffix("co.uk")) { ($0.domain, $0.isHostOnly) = ("CO.uk", false) },
    Given(testDescription: "suffix itself", refusal: nil) { $0.domain = "co.uk" },
    Given(testDescription: "prefix", refusal: .hostPrefix) { ($0.name, $0.isSecure) = ("__Host-x", false) },
    Given(testDescription: "prefix of a domain", refusal: .hostPrefix) {
      ($0.name, $0.isSecure, $0.isHostOnly) = ("__Host-x", true, false)
    },
    Given(testDescription: "prefix in order", refusal: nil) { ($0.name, $0.isSecure) = ("__Host-x", true) },
    Given(testDescription: "SameSite", refusal: .insecureSameSiteNone) { $0.sameSite = .none },
  ]

  /// What a caller or a file gives is checked as what a server sends.
  @Test(arguments: given) func givenCookies(_ row: Given) throws {
    var store = try store()
    var record = CookieRecord(name: "x", value: "1", domain: "a.com", created: cookieNow)
    row.change(&record)
    if let refusal = row.refusal {
      #expect(throws: refusal) { try store.insert(record, now: cookieNow) }
      #expect(store.isEmpty)
    } else {
      try store.insert(record, now: cookieNow)
      #expect(store.count == 1)
    }
  }

  @Test func givenExpiriesAreCapped() throws {
    var store = try store()
    let record = CookieRecord(
      name: "x", value: "1", domain: "A.Com", expiry: HTTPDate(seconds: .max), created: cookieNow)
    try store.insert(record, now: cookieNow)
    let kept = try #require(store.records(cookieNow).first)
    #expect(kept.expiry?.seconds == cookieNow.seconds + 400 * 86_400)
    #expect(kept.domain == "a.com")
  }
}
