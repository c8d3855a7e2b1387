package import LupineWire

/// What is on the disk, and what a request for the rest of it asked for: `Range: bytes=offset-`, with `If-Range` if there is a validator.
package struct RangeOffer: Hashable, Sendable {
  package var offset: Int64
  package var total: Int64?
  /// Nil only where a person said to go on with a file that nothing is known about.
  package var validator: ResumeValidator?
  /// What gave the bytes that are there; nil if that is unknown.
  package var source: ResumeSource?

  package init(offset: Int64, total: Int64?, validator: ResumeValidator?, source: ResumeSource?) {
    self.offset = offset
    self.total = total
    self.validator = validator
    self.source = source
  }

  package init(_ record: ResumeRecord) {
    self.init(offset: record.offset, total: record.total, validator: record.validator, source: record.source)
  }
}

/// What of an answer matters here: the values of every field of a name, in wire order.
package struct RangeAnswer: Hashable, Sendable {
  package var status: Int
  /// After redirects.
  package var url: ParsedURL
  package var contentRanges: [String] = []
  package var contentTypes: [String] = []
  package var contentCodings: [String] = []
  package var contentLength: Int64?
  package var entityTags: [String] = []
  package var lastModified: [String] = []
  package var acceptRanges: [String] = []
  package var dates: [String] = []

  package init(status: Int, url: ParsedURL, fields: FieldSection) {
    self.status = status
    self.url = url
    contentRanges = fields.values(named: "content-range")
    contentTypes = fields.values(.contentType)
    contentCodings = fields.values(.contentEncoding)
    contentLength = fields.contentLength
    entityTags = fields.values(named: "etag")
    lastModified = fields.values(named: "last-modified")
    acceptRanges = fields.values(named: "accept-ranges")
    dates = fields.values(named: "date")
  }

  package init(status: Int, url: ParsedURL) {
    self.status = status
    self.url = url
  }

  /// Whether the body is in a coding other than identity.
  package var isCoded: Bool {
    contentCodings.contains { value in
      value.utf8.split(separator: UInt8(ascii: ",")).contains { member in
        let name = FieldScanner.trimmed(member)
        return !name.isEmpty && name.smallToken != "identity"
      }
    }
  }

  /// Whether the server says that it gives no ranges (RFC 9110 section 14.3).
  package var refusesRanges: Bool {
    acceptRanges.contains { FieldScanner.trimmed($0[...].utf8).smallToken == "none" }
  }
}

/// What to do with the answer to a request for the rest.
package enum ResumeDecision: Hashable, Sendable {
  /// The body belongs behind what is there; it has `count` bytes, after which the file has `total` unless the server gave only a part.
  case append(count: Int64, total: Int64)
  /// The body is the whole: it takes the place of what is there.
  case replace
  /// What is there is the whole already; the body is of no interest.
  case complete
  /// The answer is of no use: ask again, for the whole.
  case askAgain(Reason)
  /// The answer is about something else: an error that carries it. What is there stays.
  case fail

  package enum Reason: Hashable, Sendable {
    /// Another host, scheme or port answers than the one that gave the first bytes: their tags have nothing to do with each other.
    case otherOrigin
    /// Another path of that origin answers, or with a date another query: a redirect leads elsewhere than before.
    case otherResource
    /// `multipart/byteranges`, although one range was asked for (RFC 9110 section 14.6).
    case severalParts
    /// `Content-Range` is missing, there twice, unreadable, or in a unit other than bytes.
    case noContentRange
    /// It begins elsewhere.
    case otherStart(Int64)
    /// The whole has another length than before.
    case otherTotal(Int64)
    /// The server does not say how long the whole is, so that nobody could tell whether it is complete.
    case unknownTotal
    /// `Content-Length` contradicts `Content-Range`.
    case contradictoryLength(Int64)
    /// The version is another one, or the answer does not say which, although it must (section 15.3.7).
    case otherVersion
    /// The part is of a coded form.
    case coded
    /// 416 although bytes are missing, or more are there than the whole has.
    case unsatisfiable
  }
}

/// RFC 9110 sections 13.1.5, 14.4, 15.3.7 and 15.5.17 as one pure decision: what may be put behind bytes that are there already.
///
/// Wherever an answer leaves a doubt whether both parts are of one version, the whole is fetched again: a download takes longer, and is right.
package enum ResumeRule {
  package static func decide(_ answer: RangeAnswer, to offer: RangeOffer) -> ResumeDecision {
    switch answer.status {
    case 206: partial(answer, offer)
    case 416: unsatisfied(answer, offer)
    case 200..<300: .replace
    default: .fail
    }
  }

  private static func partial(_ answer: RangeAnswer, _ offer: RangeOffer) -> ResumeDecision {
    if let reason = mismatch(answer, offer) { return .askAgain(reason) }
    guard !answer.contentTypes.contains(where: isMultipart) else { return .askAgain(.severalParts) }
    guard answer.contentRanges.count == 1, let range = ContentRange(answer.contentRanges[0]),
      case .part(let part, let total) = range
    else { return .askAgain(.noContentRange) }
    guard part.lowerBound == offer.offset else { return .askAgain(.otherStart(part.lowerBound)) }
    if let total, let expected = offer.total, total != expected { return .askAgain(.otherTotal(total)) }
    guard let whole = total ?? offer.total else { return .askAgain(.unknownTotal) }
    guard part.upperBound < whole else { return .askAgain(.otherTotal(part.upperBound)) }
    // No overflow: both bounds are of one valid range, which begins above 0.
    let count = part.upperBound - part.lowerBound + 1
    if let length = answer.contentLength, length != count { return .askAgain(.contradictoryLength(length)) }
    if answer.isCoded { return .askAgain(.coded) }
    return .append(count: count, total: whole)
  }

  private static func unsatisfied(_ answer: RangeAnswer, _ offer: RangeOffer) -> ResumeDecision {
    guard answer.contentRanges.count == 1, let range = ContentRange(answer.contentRanges[0]),
      case .unsatisfied(let total) = range, total == offer.offset, offer.total ?? total == total
    else { return .askAgain(.unsatisfiable) }
    // Many servers send no validator with an error; one that differs is believed.
    if let reason = otherSource(answer, offer) { return .askAgain(reason) }
    switch offer.validator {
    case .entityTag(let tag) where !answer.entityTags.isEmpty && !answer.entityTags.isSame(as: [tag]),
      .lastModified(let tag) where !answer.lastModified.isEmpty && !answer.lastModified.isSame(as: [tag]):
      return .askAgain(.otherVersion)
    default: return .complete
    }
  }

  /// Why the part cannot be of the version that is there.
  private static func mismatch(_ answer: RangeAnswer, _ offer: RangeOffer) -> ResumeDecision.Reason? {
    if let reason = otherSource(answer, offer) { return reason }
    switch offer.validator {
    case nil: return nil
    // Section 15.3.7: a 206 has the tag if a 200 would have had it.
    case .entityTag(let tag): return answer.entityTags.isSame(as: [tag]) ? nil : .otherVersion
    // The same section lets a server leave this one out; the condition of the request stands for it.
    case .lastModified(let date):
      return answer.lastModified.isEmpty || answer.lastModified.isSame(as: [date]) ? nil : .otherVersion
    }
  }

  /// Why the answer is of another resource than what is there.
  private static func otherSource(_ answer: RangeAnswer, _ offer: RangeOffer) -> ResumeDecision.Reason? {
    guard let source = offer.source else { return nil }
    guard source.origin == answer.url.origin else { return .otherOrigin }
    return source == ResumeSource(answer.url, for: offer.validator) ? nil : .otherResource
  }

  private static func isMultipart(_ value: String) -> Bool {
    MediaType(value).map { $0.type == "multipart" && $0.subtype == "byteranges" } ?? false
  }
}
