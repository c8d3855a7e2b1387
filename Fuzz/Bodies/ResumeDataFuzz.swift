internal import LupineRules

/// Oracle: what is read as resume data is written as the same bytes, holds no secrets and names one file of a folder; bytes are put behind a
/// file only if the answer says that they are its next ones, of the same version, and that all fit; and a file is complete only if the answer
/// says that the same version is as long.
///
/// The first byte chooses: bytes as they are; bytes with a right checksum, so that the fields themselves are reached; or an answer, its
/// status in the first line, a field in each line after it.
package enum ResumeDataFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch choice & 3 {
    case 0: read(rest)
    case 1: read(rest + ResumeHash.digest(rest.span).prefix(8))
    default: decide(rest, isDated: choice & 4 != 0, isKnown: choice & 8 == 0)
    }
  }

  private static func read(_ bytes: [UInt8]) {
    guard let record = try? ResumeRecord(decoding: bytes) else { return }
    precondition((try? record.encoded()) == bytes, "the same record has two forms")
    precondition(record.offset > 0 && record.total ?? .max >= record.offset, "there is less than nothing")
    precondition(record.url.userinfo == nil && record.url.fragment == nil, "secrets are in it")
    URLReaderFuzz.check(record.url)
    let name = record.partialName.utf8
    precondition(!name.isEmpty && name.count <= 255 && !name.contains(UInt8(ascii: "/")) && !name.contains(0))
    precondition(record.partialName != "." && record.partialName != "..", "the name leads elsewhere")
    precondition(record.headHash.count == 32 && record.tailHash.count == 32)
    let tag = record.validator.text.utf8
    precondition(!tag.contains(0x0D) && !tag.contains(0x0A) && !tag.starts(with: "W/".utf8), "no validator for a field")
    precondition(RangeOffer(record).offset == record.offset)
  }

  private static func decide(_ bytes: [UInt8], isDated: Bool, isKnown: Bool) {
    guard let url = try? URLReader.read("http://a.example/f?q"),
      let other = try? URLReader.read("http://b.example/f?q"),
      let elsewhere = try? URLReader.read("http://a.example/g?q"),
      let signedAnew = try? URLReader.read("http://a.example/f?r")
    else {
      preconditionFailure("URLs cannot be read")
    }
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    let status = lines.first.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 206
    var answer = RangeAnswer(status: status, url: url)
    for line in lines.dropFirst() {
      let value = String(decoding: line.dropFirst(), as: UTF8.self)
      switch line.first {
      case UInt8(ascii: "r"): answer.contentRanges.append(value)
      case UInt8(ascii: "e"): answer.entityTags.append(value)
      case UInt8(ascii: "m"): answer.lastModified.append(value)
      case UInt8(ascii: "d"): answer.dates.append(value)
      case UInt8(ascii: "l"): answer.contentLength = Int64(value)
      case UInt8(ascii: "t"): answer.contentTypes.append(value)
      case UInt8(ascii: "c"): answer.contentCodings.append(value)
      case UInt8(ascii: "o"): answer.url = other
      case UInt8(ascii: "p"): answer.url = elsewhere
      case UInt8(ascii: "q"): answer.url = signedAnew
      default: break
      }
    }
    let now = HTTPDate(seconds: 1_000_000_000)
    let date = "Sun, 06 Nov 1994 08:49:37 GMT"
    let validator = ResumeValidator(
      entityTags: isDated ? [] : ["\"v\""], lastModified: [date], dates: ["Tue, 15 Nov 1994 08:12:31 GMT"], now: now)
    let offer = RangeOffer(
      offset: 100, total: isKnown ? 200 : nil, validator: validator, source: ResumeSource(url, for: validator))
    check(ResumeRule.decide(answer, to: offer), answer, offer)
    if let strong = ResumeValidator(
      entityTags: answer.entityTags, lastModified: answer.lastModified, dates: answer.dates, now: now)
    {
      let text = strong.text.utf8
      precondition(!text.contains(0x0D) && !text.contains(0x0A) && !text.starts(with: "W/".utf8), "a weak validator")
    }
  }

  private static func check(_ decision: ResumeDecision, _ answer: RangeAnswer, _ offer: RangeOffer) {
    switch decision {
    case .append(let count, let total):
      precondition(answer.status == 206 && answer.contentRanges.count == 1, "appended without a range")
      precondition(answer.url.origin == offer.source?.origin, "parts of two servers")
      precondition(
        answer.url.path == "/f" && (answer.url.query == "q" || offer.validator?.isEntityTag == true), "of two files")
      precondition(count > 0 && total >= offer.offset + count, "more than the whole")
      precondition(offer.total ?? total == total, "another length")
      precondition(answer.contentLength ?? count == count, "another length of the part")
      if case .entityTag(let tag)? = offer.validator { precondition(answer.entityTags == [tag], "another version") }
      // Read by other code: everything between the unit and the dash is where it begins.
      let digits = answer.contentRanges[0].utf8.drop { !(0x30...0x39).contains($0) }.prefix { $0 != UInt8(ascii: "-") }
      precondition(Int64(String(decoding: digits, as: UTF8.self)) == offer.offset, "a gap, or an overlap")
    case .complete: checkComplete(answer, offer)
    case .replace: precondition((200..<300).contains(answer.status) && answer.status != 206)
    case .askAgain: precondition(answer.status == 206 || answer.status == 416)
    case .fail: precondition(answer.status != 206 && answer.status != 416 && !(200..<300).contains(answer.status))
    }
  }

  private static func checkComplete(_ answer: RangeAnswer, _ offer: RangeOffer) {
    precondition(answer.status == 416 && answer.contentRanges.count == 1, "complete without a range")
    precondition(offer.total ?? offer.offset == offer.offset, "not complete")
    precondition(answer.url.origin == offer.source?.origin, "complete on another server")
    precondition(
      answer.url.path == "/f" && (answer.url.query == "q" || offer.validator?.isEntityTag == true),
      "complete as another file")
    // Many servers send no validator with an error.
    switch offer.validator {
    case .entityTag(let tag)?:
      precondition(answer.entityTags.isEmpty || answer.entityTags == [tag], "complete in another version")
    case .lastModified(let date)?:
      precondition(answer.lastModified.isEmpty || answer.lastModified == [date], "complete in another version")
    case nil: break
    }
    // Read by other code: no part stands before the slash, and the length of the whole behind it.
    let halves = answer.contentRanges[0].utf8.split(
      separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
    precondition(halves.count == 2 && halves[0].last == UInt8(ascii: "*"), "complete, and a part was given")
    let digits = halves[1].prefix { (0x30...0x39).contains($0) }
    precondition(Int64(String(decoding: digits, as: UTF8.self)) == offer.offset, "not all is there, or more than all")
  }
}
