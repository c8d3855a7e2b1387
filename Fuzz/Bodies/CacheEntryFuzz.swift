internal import LupineRules
internal import LupineWire

/// Oracle: what is read as a file of the cache is written as the same bytes, and with one bit bent it is nothing; whatever the fields of a
/// stored response say, its ages do not run backwards, it is served with one `Age`, and what must not be stored is not; a request gets what
/// was stored for one that has the same of the fields that count, and for no other; what is fresh now was so before.
///
/// The first byte chooses: bytes as they are; bytes with a right length and checksum, so that the fields themselves are reached; a head,
/// whose lines are those of a response; or a request's fields, a line each, and such a head behind an empty line.
package enum CacheEntryFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch choice & 3 {
    case 0: read(rest)
    case 1: read(sealed(rest))
    case 2: respond(rest, now: Int64(choice) << 24)
    default: exchange(rest, method: ["GET", "HEAD", "POST"][Int(choice >> 2) % 3])
    }
  }

  private static func sealed(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.count >= 40 else { return bytes }
    var whole = Array("LUPCACH1".utf8) + little(0) + little(UInt64(bytes.count + 24)) + bytes
    whole.replaceSubrange(8..<16, with: little(XXHash64.hash(whole.span.extracting(droppingFirst: 16))))
    return whole
  }

  private static func little(_ value: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
  }

  private static func read(_ bytes: [UInt8]) {
    guard let record = CacheRecord(decoding: bytes, key: nil) else { return }
    precondition(record.encoded == bytes, "the same record has two forms")
    precondition(CacheRecord(decoding: bytes, key: record.key) != nil, "its own key does not lead to it")
    precondition(CacheRecord(decoding: bytes, key: record.key + "x") == nil, "another key leads to it")
    for place in stride(from: 0, to: bytes.count, by: max(1, bytes.count / 16)) {
      var bent = bytes
      bent[place] ^= 1
      precondition(CacheRecord(decoding: bent, key: nil) == nil, "a bent bit is not seen")
    }
    precondition(CacheRecord(decoding: Array(bytes.dropLast()), key: nil) == nil, "a cut is not seen")
    if case .response(let response) = record { check(response) }
  }

  private static func respond(_ bytes: [UInt8], now: Int64) {
    let lines = bytes + Array("\r\n\r\n".utf8)
    guard let head = try? ResponseHead(bytes: lines.span) else { return }
    let request = CacheRequest(method: "GET")
    guard
      let response = StoredResponse(
        key: "k", head: head, body: [1, 2, 3], requestTime: now, responseTime: now + 1, authorization: nil)
    else { return }
    check(response)
    if StorageRule.decide(request, head) == .store {
      let text = String(decoding: bytes, as: UTF8.self).lowercased()
      precondition(!text.contains("\r\ncache-control: no-store\r\n") || text.contains("must-understand"), "stored")
      precondition(VaryRule.names(head.fields) != nil)
    }
    if let record = CacheRecord.response(response).encoded { read(record) }
    _ = response.updated(by: head, requestTime: now, responseTime: now + 2, key: "k", authorization: nil).map(check)
  }

  private static func check(_ response: StoredResponse) {
    let terms = response.terms
    precondition(terms.lifetime >= 0 && terms.initialAge >= 0)
    precondition(terms.age(at: 0) <= terms.age(at: 1 << 40), "it gets younger")
    guard let head = response.head(at: response.responseTime) else { return }
    precondition(head.fields.values(named: "age").count == 1 && head.status == response.head.status)
    precondition(head.fields.firstIndex(named: "date") != nil, "served without a date")
    precondition(!head.fields.has(.setCookie) || response.head.fields.has(.setCookie))
    precondition(response.isConfirmed(by: response.head), "its own fields speak of something else")
    precondition(!response.isDenied(byHead: response.head), "its own fields deny it")
    for (name, value) in terms.conditions {
      precondition(!value.utf8.contains { $0 < 0x20 && $0 != 9 })
      let came = bytes(response.head.fields, name == "If-None-Match" ? "etag" : "last-modified")
      precondition(came == Array(value.utf8), "another validator goes back than came")
    }
    let request = CacheRequest(method: "GET")
    for mode in [CacheMode.protocolRules, .storedElseLoad, .revalidating] {
      _ = CacheUseRule.decide(terms, request, mode, at: response.responseTime + 100)
    }
    _ = CacheUseRule.mayServeOnError(terms, request, at: 1 << 40)
  }

  private static func bytes(_ fields: FieldSection, _ name: String) -> [UInt8]? {
    guard let index = fields.firstIndex(named: name) else { return nil }
    let value = fields.valueBytes(at: index)
    return value.indices.map { value[$0] }
  }

  // MARK: A request and what was stored

  private typealias Fields = [(name: String, value: String)]

  private static func exchange(_ bytes: [UInt8], method: String) {
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    let (above, below) = (lines.prefix { !$0.isEmpty }, lines.drop { !$0.isEmpty }.dropFirst())
    let fields: Fields = above.compactMap { line in
      let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, parts[0].allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return nil }
      return (String(decoding: parts[0], as: UTF8.self), String(decoding: parts[1], as: UTF8.self))
    }
    let request = CacheRequest(method: method, hasBody: false, fields: fields)
    let shouted = fields.map { (name: $0.name.uppercased(), value: $0.value) }
    precondition(request == CacheRequest(method: method, hasBody: false, fields: shouted), "the case of a name counts")
    let text = Array(below.joined(separator: [0x0D, 0x0A])) + Array("\r\n\r\n".utf8)
    guard let head = try? ResponseHead(bytes: text.span) else { return }
    decide(request, head)
    if let names = VaryRule.names(head.fields) { vary(names, fields) }
    invalidate(head)
    guard let names = StorageRule.varyingNames(head, of: { fields }, isMarkedSensitive: { _ in false }),
      let response = StoredResponse(
        key: CacheKey.second("k", 1, VaryRule.select(names, of: fields)), head: head, body: [], requestTime: 1_000,
        responseTime: 1_001, authorization: request.authorization)
    else { return }
    use(response, request)
  }

  private static func words(_ head: ResponseHead) -> String {
    head.fields.values(named: "cache-control").joined(separator: ",").lowercased()
  }

  private static func decide(_ request: CacheRequest, _ head: ResponseHead) {
    let decision = StorageRule.decide(request, head)
    guard case .refuse = decision else {
      precondition(request.method == "GET" && request.mayUseStored && !request.directives.noStore, "stored")
      precondition((200...599).contains(head.status) && head.status != 206 && head.status != 304)
      guard let names = VaryRule.names(head.fields) else { preconditionFailure("what varies by anything is stored") }
      guard decision == .store else { return }
      precondition(!names.contains("cookie") && !names.contains("authorization"), "a secret is written down")
      let isOpen = words(head).contains("public") || words(head).contains("s-maxage")
      precondition(request.authorization == nil || isOpen, "what is for one is written down")
      return
    }
  }

  private static func vary(_ names: [String], _ fields: Fields) {
    let counted = CacheKey.names(names, isDecoded: true)
    precondition(!counted.contains("accept-encoding") && CacheKey.names(names, isDecoded: false) == names)
    precondition(names == Set(names).sorted(), "a name counts twice")
    func key(_ fields: Fields) -> String { CacheKey.second("f", 7, VaryRule.select(counted, of: fields)) }
    let own = key(fields)
    let needed = fields.filter { counted.contains($0.name.lowercased()) }
    precondition(key(needed) == own, "a field that does not count changes what is found")
    precondition(key(needed.map { ($0.name.uppercased(), " \($0.value)\t") }) == own, "the case of a name counts")
    for name in counted {
      precondition(key(fields + [(name, "x")]) != own, "a further value finds the same")
      let without = fields.filter { $0.name.lowercased() != name }
      precondition((key(without) == own) == (without.count == fields.count), "a field that is missing finds the same")
    }
  }

  private static func invalidate(_ head: ResponseHead) {
    guard let url = try? URLReader.read("http://a.example/x/y") else {
      preconditionFailure("a URL of ours is unreadable")
    }
    let keys = [false, true].map { CacheKey.first(partition: "", isDecoded: $0, url: url) }
    precondition(keys[0] != keys[1], "what is decoded and what is not are one")
    let references = ["location", "content-location"].flatMap { head.fields.values(named: $0) }
    let targets = InvalidationRule.targets(url, status: head.status, references: references.map { Array($0.utf8) })
    precondition(targets.isEmpty != (200..<400).contains(head.status) && targets.count <= references.count + 1)
    precondition(targets.allSatisfy { $0.origin == url.origin }, "a server made others forget")
  }

  private static func use(_ response: StoredResponse, _ request: CacheRequest) {
    let isOpen = words(response.head).contains("public") || words(response.head).contains("s-maxage")
    let stranger = CacheRequest(method: "GET")
    precondition(response.answers(request), "it does not answer who asked for it")
    precondition(!response.answers(stranger) || request.authorization == nil || isOpen, "it answers strangers")
    var wasServed = true
    for age in [0, 1, 59, 3_600, 86_400, 1 << 40] as [Int64] {
      let use = CacheUseRule.decide(response.terms, request, .protocolRules, at: response.responseTime + age)
      precondition(wasServed || use != .serve, "it is fresh again")
      precondition(!request.directives.onlyIfCached || use == .serve || use == .refuse, "it is asked for all the same")
      precondition(use != .serveAndRevalidate || request.mayBeStored, "nobody asks behind the answer")
      wasServed = use == .serve
      guard use == .serve else { continue }
      precondition(!request.directives.noCache && !response.terms.noCache, "served without being asked for")
      let isFresh = response.terms.age(at: response.responseTime + age) < response.terms.lifetime
      precondition(isFresh || request.directives.maximumStaleness != nil, "it is stale")
    }
  }
}
