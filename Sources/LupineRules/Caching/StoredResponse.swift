internal import LupineBase
package import LupineWire

/// A complete response as a cache keeps it. Cheap to hand round; never changed.
package final class StoredResponse: Sendable {
  /// What it is stored under; see `CacheKey`.
  package let key: String
  /// When it was asked for, in seconds of the wall clock.
  package let requestTime: Int64
  /// When its head arrived.
  package let responseTime: Int64
  /// Whom it is for alone: the value of `Authorization`. It is never written down.
  package let authorization: String?
  /// As it came, without what is of one connection or one moment; `Age` is the one it came with.
  package let head: ResponseHead
  /// Status line and fields, each line with its end; without the empty line.
  package let headBytes: [UInt8]
  /// Decoded, if the request had offered the codings on its own.
  package let body: [UInt8]
  package let terms: CacheTerms
  /// `headBytes` without `Age`, and with a `Date`.
  private let servedBytes: [UInt8]

  init(
    key: String, headBytes: [UInt8], head: ResponseHead, body: [UInt8], requestTime: Int64, responseTime: Int64,
    authorization: String?
  ) {
    self.key = key
    self.headBytes = headBytes
    self.head = head
    self.body = body
    self.requestTime = requestTime
    self.responseTime = responseTime
    self.authorization = authorization
    terms = CacheTerms(head, requestTime: requestTime, responseTime: responseTime)
    servedBytes = Self.served(head, headBytes, responseTime: responseTime)
  }

  /// Nil if the head has more than the parser takes, which it would not have passed then, or a `Connection` with more names than are looked for.
  package convenience init?(
    key: String, head: ResponseHead, body: [UInt8], requestTime: Int64, responseTime: Int64, authorization: String?
  ) {
    guard let dropped = HeadWriter.connectionFields(head.fields)?.union([HeadWriter.authenticationInfo]) else {
      return nil
    }
    let bytes = HeadWriter.bytes(head) { !dropped.contains($0) }
    guard let kept = HeadWriter.read(bytes) else { return nil }
    self.init(
      key: key, headBytes: bytes, head: kept, body: body, requestTime: requestTime, responseTime: responseTime,
      authorization: authorization)
  }

  /// Whether it may answer whoever is asking; see `StorageRule.isBound`. What came for nobody is for nobody: it answers neither `Authorization` nor a key.
  package func answers(_ request: CacheRequest) -> Bool {
    if terms.isShareable { return true }
    switch (authorization, request.authorization) {
    case (nil, nil): break
    case (let own?, let other?) where own.hasBytes(of: other): break
    default: return false
    }
    return request.keys.allSatisfy { CacheKey.varies(key, by: $0) }
  }

  /// What it takes, roughly: bytes.
  package var cost: Int { 2 * headBytes.count + body.count + 2 * key.utf8.count + 512 }

  private static func served(_ head: ResponseHead, _ headBytes: [UInt8], responseTime: Int64) -> [UInt8] {
    var bytes = head.fields.firstIndex(named: "age") == nil ? headBytes : HeadWriter.bytes(head) { $0 != "age" }
    // RFC 9110 section 6.6.1: what is stored has a date, that of its arrival if it had none.
    if head.fields.firstIndex(named: "date") == nil {
      bytes += "Date: \(HTTPDate(seconds: responseTime).text)\r\n".utf8
    }
    return bytes
  }

  /// The head as it is served, with the age that it has now (RFC 9111 section 5.1).
  package func head(at now: Int64) -> ResponseHead? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(servedBytes.count + 32)
    bytes += servedBytes
    bytes += "Age: \(terms.age(at: now))\r\n\r\n".utf8
    return try? ResponseHead(bytes: bytes.span)
  }

  /// Whether a 304 speaks of this response (RFC 9111 section 4.3.4): with another validator it confirms something else. A field that is no
  /// validator does not count as long as it stays what it was.
  package func isConfirmed(by answer: ResponseHead) -> Bool {
    if let isSame = hasTag(of: answer) { return isSame }
    if let date = answer.fields.first(named: "last-modified"), let own = terms.lastModified {
      return date.hasBytes(of: own)
    }
    return true
  }

  /// Whether a 200 to HEAD speaks of something else (RFC 9111 section 4.3.5): each validator that it has, and its length, must be what GET has
  /// brought.
  package func isDenied(byHead answer: ResponseHead) -> Bool {
    guard answer.status == 200 else { return false }
    let dates = answer.fields.values(named: "last-modified")
    return hasTag(of: answer) == false
      || !dates.isEmpty && !dates.isSame(as: head.fields.values(named: "last-modified"))
      || hasLength(of: answer) == false
  }

  /// Whether the length that another answer tells is that of our body; nil if it tells none, or not that of what is stored: the body may be decoded, and
  /// came without a length of its own in chunks.
  private func hasLength(of answer: ResponseHead) -> Bool? {
    let lengths = answer.fields.values(named: "content-length")
    let own = head.fields.values(named: "content-length")
    guard own.isEmpty else { return lengths.isEmpty ? nil : lengths.isSame(as: own) }
    guard let length = lengths.first, head.fields.firstIndex(named: "content-encoding") == nil,
      answer.fields.firstIndex(named: "content-encoding") == nil
    else { return nil }
    return length.hasBytes(of: "\(body.count)")
  }

  /// Whether the entity tag of another answer is ours, weak or not; nil if it says nothing.
  private func hasTag(of answer: ResponseHead) -> Bool? {
    func opaque(_ tag: String) -> Substring { CacheTerms.isWeak(tag) ? tag.dropFirst(2) : tag[...] }
    if let tag = CacheTerms.entityTag(answer.fields) {
      return terms.entityTag.map { opaque($0).hasBytes(of: opaque(tag)) } ?? false
    }
    let tags = answer.fields.values(named: "etag")
    let isSilent = tags.isEmpty || terms.entityTag == nil && tags.isSame(as: head.fields.values(named: "etag"))
    return isSilent ? nil : false
  }

  /// The same response with the fields of a 304 (RFC 9111 section 3.2); those that describe the body stay as they are. What there is of
  /// `Authentication-Info` is the 304's. Age and date are those of the 304 also where it has none: without a date it is of the moment when it came (RFC 9110 section 6.6.1), as every response is.
  package func updated(
    by answer: ResponseHead, requestTime: Int64, responseTime: Int64, key: String, authorization: String?
  ) -> StoredResponse? {
    guard
      let kept = HeadWriter.connectionFields(answer.fields)?
        .union(["content-length", "content-encoding", "content-range", "content-type"])
    else { return nil }
    var replaced: Set<String> = []
    for index in 0..<answer.fields.count { replaced.insert(answer.fields.name(at: index).lowercased()) }
    replaced.subtract(kept)
    replaced.formUnion(["age", "date", HeadWriter.authenticationInfo])
    var bytes = HeadWriter.bytes(head) { !replaced.contains($0) }
    HeadWriter.append(answer.fields, to: &bytes) { !kept.contains($0) }
    guard let head = HeadWriter.read(bytes) else { return nil }
    return StoredResponse(
      key: key, headBytes: bytes, head: head, body: body, requestTime: requestTime, responseTime: responseTime,
      authorization: authorization)
  }
}

/// Heads as bytes.
enum HeadWriter {
  /// The field that tells one request what it proved, and which nonce comes next (RFC 7615 section 3): later that is not so any more. Not stored, but the one of
  /// a 304 is for who asked.
  static let authenticationInfo = "authentication-info"
  /// Far more than there is to name, the twelve that every connection has included, and little to hash.
  static let maximumNames = 128

  /// What is not of the response but of the connection it came over (RFC 9111 section 3.1), and cookies: they were set when it came, and are not
  /// set again. In lower case. Nil where there are more than `maximumNames`.
  static func connectionFields(_ fields: FieldSection) -> Set<String>? {
    var names: Set<String> = [
      "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authentication-info",
      "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "set-cookie", "set-cookie2",
    ]
    for value in fields.values(.connection) {
      for element in value.utf8.split(separator: UInt8(ascii: ",")) {
        let name = FieldScanner.trimmed(element)
        // Anything else names no field, and may take long to hash.
        if let name = name.smallToken { names.insert(name) }
        guard names.count <= maximumNames else { return nil }
      }
    }
    return names
  }

  /// - Parameter isKept: by the name in lower case.
  static func bytes(_ head: ResponseHead, _ isKept: (String) -> Bool) -> [UInt8] {
    var bytes = Array("HTTP/1.\(head.version.minor) \(head.status) ".utf8)
    bytes.append(head.reasonBytes)
    bytes += [0x0D, 0x0A]
    append(head.fields, to: &bytes, isKept)
    return bytes
  }

  static func append(_ fields: FieldSection, to bytes: inout [UInt8], _ isKept: (String) -> Bool) {
    for index in 0..<fields.count where isKept(fields.name(at: index).lowercased()) {
      bytes.append(fields.nameBytes(at: index))
      bytes += [0x3A, 0x20]
      bytes.append(fields.valueBytes(at: index))
      bytes += [0x0D, 0x0A]
    }
  }

  static func read(_ bytes: [UInt8]) -> ResponseHead? {
    let whole = bytes + [0x0D, 0x0A]
    return try? ResponseHead(bytes: whole.span)
  }
}
