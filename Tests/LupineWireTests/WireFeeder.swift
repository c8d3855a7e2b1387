import LupineWire

/// What came of one way of feeding: the log in the words of the case files, and how many bytes were taken.
struct FeedResult: Equatable {
  var log: [String] = []
  var taken = 0
}

/// Feeds a parser in pieces and writes down what it says, adjacent body ranges joined.
struct Feeder: ~Copyable {
  private var parser: ResponseParser
  private let one: WireCase
  private var result = FeedResult()
  private var body: [UInt8] = []
  private var isOver = false

  init(_ one: WireCase) {
    self.one = one
    parser = ResponseParser(limits: one.limits, leniency: one.leniency)
    parser.begin(one.request)
  }

  /// Feeds `pieces` in order, then the end of input if the case has one.
  static func feed(_ one: WireCase, _ pieces: [ArraySlice<UInt8>]) -> FeedResult {
    var feeder = Feeder(one)
    for piece in pieces where !feeder.isOver { feeder.feed(Array(piece)) }
    return feeder.finish()
  }

  private mutating func feed(_ piece: [UInt8]) {
    var offset = 0
    while !isOver {
      let before = offset
      do {
        switch try parser.next(piece.span, &offset) {
        case .needMore:
          // Everything given must have been taken.
          if offset != piece.count { note("STUCK at \(offset) of \(piece.count)") }
          result.taken += offset - before
          return
        case .informational(let head): note("informational", head, "")
        case .head(let head, let framing): note("head", head, " \(framing)")
        case .body(let range):
          if range.isEmpty || range.lowerBound < before || range.upperBound > offset { note("BAD RANGE \(range)") }
          body += piece[range]
        case .trailers(let section): note(section, "trailer")
        case .end: end()
        }
        result.taken += offset - before
      } catch {
        note("error \(error.reason) @\(error.offset)")
        result.taken = 0
        isOver = true
      }
    }
  }

  private mutating func finish() -> FeedResult {
    if !isOver {
      if one.closes {
        do {
          if try parser.finish() == .end { end() }
        } catch {
          note("error \(error.reason) @\(error.offset)")
        }
      } else {
        note("more")
      }
    }
    return result
  }

  private mutating func end() {
    let dropped = parser.droppedTrailerFields
    if dropped > 0 { note("dropped \(dropped)") }
    switch parser.reuseVerdict {
    case .reusable: note("end reusable" + (parser.keepAliveSeconds.map { " \($0) s" } ?? ""))
    case .close(let reason): note("end close(\(reason))")
    }
    isOver = true
  }

  private mutating func note(_ line: String) {
    if !body.isEmpty {
      // Long bodies by length: the log is for people.
      let text = String(decoding: body, as: UTF8.self)
      result.log.append(body.count > 60 ? "body of \(body.count)" : "body \(text.debugDescription)")
      body = []
    }
    result.log.append(line)
  }

  private mutating func note(_ kind: String, _ head: ResponseHead, _ framing: String) {
    note("\(kind) \(head.status)\(framing)")
    guard one.showsFields else { return }
    note("\(head.version) \(head.reason.debugDescription)")
    note(head.fields, "field")
  }

  private mutating func note(_ section: FieldSection, _ kind: String) {
    for (name, value) in section.pairs { note("\(kind) \("\(name): \(value)".debugDescription)") }
  }
}
