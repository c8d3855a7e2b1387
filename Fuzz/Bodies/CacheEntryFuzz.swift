internal import LupineRules
internal import LupineWire

/// Oracle: what is read as a file of the cache is written as the same bytes, and with one bit bent it is nothing; whatever the fields of a
/// stored response say, its ages do not run backwards, it is served with one `Age`, and what must not be stored is not.
///
/// The first byte chooses: bytes as they are; bytes with a right length and checksum, so that the fields themselves are reached; or a head,
/// whose lines are those of a response.
package enum CacheEntryFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch choice & 3 {
    case 0: read(rest)
    case 1: read(sealed(rest))
    default: respond(rest, now: Int64(choice) << 24)
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
    precondition(!head.fields.has(.setCookie) || response.head.fields.has(.setCookie))
    for (_, value) in terms.conditions { precondition(!value.utf8.contains { $0 < 0x20 && $0 != 9 }) }
    let request = CacheRequest(method: "GET")
    for mode in [CacheMode.protocolRules, .storedElseLoad, .revalidating] {
      _ = CacheUseRule.decide(terms, request, mode, at: response.responseTime + 100)
    }
    _ = CacheUseRule.mayServeOnError(terms, request, at: 1 << 40)
  }
}
