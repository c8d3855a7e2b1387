import LupineWire
import Testing

struct ParserTests {
  private static let response = Array("HTTP/1.1 200 OK\r\nX-Name: value\r\nContent-Length: 2\r\n\r\nok".utf8)

  private func read(_ parser: inout ResponseParser, _ bytes: [UInt8]) throws -> ResponseHead? {
    var head: ResponseHead?
    var offset = 0
    while true {
      switch try parser.next(bytes.span, &offset) {
      case .head(let found, _): head = found
      case .end, .needMore: return head
      default: continue
      }
    }
  }

  /// Storage is used again only when nobody holds a head made of it.
  @Test func headsKeepTheirBytes() throws {
    var parser = ResponseParser()
    var kept: [ResponseHead] = []
    for number in 0..<5 {
      parser.begin()
      let bytes = Array("HTTP/1.1 20\(number) N\(number)\r\nX: \(number)\r\nContent-Length: 0\r\n\r\n".utf8)
      if let head = try read(&parser, bytes), number != 2 { kept.append(head) }
    }
    #expect(kept.map(\.status) == [200, 201, 203, 204])
    #expect(kept.map(\.reason) == ["N0", "N1", "N3", "N4"])
    #expect(kept.compactMap { $0.fields.first(named: "x") } == ["0", "1", "3", "4"])
  }

  /// A body of ten bytes, of which two were read and four went another way.
  private func parserOfPipedBody(_ head: [UInt8]) throws -> ResponseParser {
    var parser = ResponseParser()
    parser.begin()
    #expect(parser.bodyRemaining == nil)
    _ = try read(&parser, head)
    #expect(parser.bodyRemaining == 8)
    parser.skipBody(3)
    parser.skipBody(0)
    parser.skipBody(1)
    #expect(parser.bodyRemaining == 4 && parser.consumed == head.count + 4)
    return parser
  }

  /// Bytes of a body that went another way count as if they had been read, wherever they were, and its end comes as ever.
  @Test func bodiesThatGoAnotherWay() throws {
    let head = Array("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab".utf8)
    var broken = try parserOfPipedBody(head)
    do throws(WireError) {
      _ = try broken.finish()
      Issue.record("four bytes are missing")
    } catch {
      #expect(error.reason == .truncatedBody(missing: 4) && error.offset == head.count + 4)
    }
    var parser = try parserOfPipedBody(head)
    var offset = 0
    let rest = Array("cdefHTTP".utf8)
    let body = try parser.next(rest.span, &offset)
    guard case .body(0..<4) = body else {
      Issue.record("the rest of the body is shown: \(body)")
      return
    }
    let end = try parser.next(rest.span, &offset)
    guard case .end = end else {
      Issue.record("the body ends: \(end)")
      return
    }
    #expect(offset == 4 && parser.consumed == head.count + 8 && parser.reuseVerdict == .reusable)
  }

  /// White space at the end of a value is taken away, not once more for each line that is folded into it.
  @Test(arguments: ["b", "", "b  "]) func blankFolds(_ value: String) throws {
    let folds = String(repeating: "\r\n ", count: 21_000)
    let half = String(repeating: "\r\n ", count: 10_000)
    var head: ResponseHead?
    var time = Duration.seconds(1)
    // Once is enough, as a busy machine may take long over anything.
    for _ in 0..<3 where time >= .seconds(1) {
      var parser = ResponseParser(leniency: .obsoleteLineFolding)
      parser.begin()
      time = try ContinuousClock().measure {
        let lines = "A: \(value)\(folds)\r\nB: \(value)\(half)c\(half)\r\n"
        head = try read(&parser, Array("HTTP/1.1 200 OK\r\n\(lines)Content-Length: 0\r\n\r\n".utf8))
      }
    }
    let end = value.isEmpty ? "" : "b"
    #expect(head?.fields.first(named: "a") == end && head?.fields.first(named: "content-length") == "0")
    let folded = head?.fields.first(named: "b")
    #expect(folded?.hasPrefix(end) == true && folded?.hasSuffix("c") == true)
    #expect(time < .seconds(1))
  }

  /// Lines are found in blocks of 64 bytes: where a line ends in its block, and where the input is cut, must not matter.
  @Test(arguments: [0, 1, 7, 62, 63, 64, 65, 130])
  func linesEndAnywhereInABlock(_ longest: Int) throws {
    for length in longest..<longest + 65 {
      let value = String(repeating: "v", count: length)
      let text =
        "HTTP/1.1 200 OK\r\nA:\(value)\r\nB: \t\(value)\t \r\nX-1.y_z: a\tb\r\nContent-Length:  0\r\nC:\r\n\r\n"
      let bytes = Array(text.utf8)
      var whole = ResponseParser()
      whole.begin()
      let head = try #require(try read(&whole, bytes))
      let fields = ["A: \(value)", "B: \(value)", "X-1.y_z: a\tb", "Content-Length: 0", "C: "]
      #expect(head.fields.pairs.map { "\($0.name): \($0.value)" } == fields)
      #expect(whole.consumed == bytes.count)
      let cut = bytes.count - 1 - length % 40
      var split = ResponseParser()
      split.begin()
      #expect(try read(&split, Array(bytes[..<cut])) == nil)
      #expect(try read(&split, Array(bytes[cut...])) == head)
    }
  }

  /// A control anywhere in a block is found, where it is.
  @Test(arguments: [0x00, 0x01, 0x1F, 0x7F] as [UInt8])
  func controlsAreFoundAnywhereInABlock(_ control: UInt8) throws {
    for place in 0..<130 {
      var bytes = Array("HTTP/1.1 200 OK\r\nA: ".utf8)
      let offset = bytes.count + place
      bytes += [UInt8](repeating: 0xFF, count: place) + [control] + Array("z\r\n\r\n".utf8)
      var parser = ResponseParser()
      parser.begin()
      let error = #expect(throws: WireError.self) { try read(&parser, bytes) }
      #expect(error == WireError(.invalidFieldValueByte(control), at: offset))
    }
  }

  /// What is said of a line does not depend on whether it is all there: whatever its bytes are, and wherever they stand in a block.
  @Test(arguments: [0x09, 0x0A, 0x0D, 0x20, 0x30, 0x3A, 0x3B, 0x5F, 0x7E, 0x7F, 0x80, 0xFF] as [UInt8])
  func wholeLinesMeanWhatTheirBytesDo(_ byte: UInt8) throws {
    for place in 0..<90 {
      var line = Array("Content-Language: \(String(repeating: "v", count: 52)): z\r\nContent-Length: 0\r\n\r\n".utf8)
      line.insert(byte, at: place)
      var one = WireCase(file: "", name: "")
      one.input = Array("HTTP/1.1 200 OK\r\n".utf8) + line
      one.showsFields = true
      let pieces = one.input.indices.map { one.input[$0..<$0 + 1] }
      #expect(Feeder.feed(one, [one.input[...]]).log == Feeder.feed(one, pieces).log, "at \(place)")
    }
  }

  /// More fields than an index has room for at first, in storage that grows while it is read, and is shared after.
  @Test func manyFieldsInPieces() throws {
    var parser = ResponseParser()
    var kept: [ResponseHead] = []
    for round in 0..<3 {
      parser.begin()
      let lines = (0..<300).map { "Name-\($0): value \(round) \($0)\r\n" }.joined()
      let bytes = Array("HTTP/1.1 200 OK\r\nLocation: l\r\n\(lines)Content-Length: 0\r\n\r\n".utf8)
      let middle = bytes.count / 2 + round
      #expect(try read(&parser, Array(bytes[..<middle])) == nil)
      kept.append(try #require(try read(&parser, Array(bytes[middle...]))))
    }
    for (round, head) in kept.enumerated() {
      #expect(head.fields.count == 302)
      #expect(head.fields.first(.location) == "l")
      #expect(head.fields.firstIndex(.contentLength) == 301)
      #expect((0..<300).allSatisfy { head.fields.value(at: $0 + 1) == "value \(round) \($0)" })
    }
  }

  @Test func findsFields() throws {
    var parser = ResponseParser()
    parser.begin()
    let head = try #require(
      try read(
        &parser,
        Array(
          """
          HTTP/1.1 200 OK\r\nSet-Cookie: a\r\ncontent-type: t\r\nLOCATION: l\r\nset-cookie: b\r\nContent-Encoding: gzip\r
          Keep-Alive: k\r\nConnection: c\r\nContent-Length: 0\r\nX: 1\r\nSet-Cookie: c\r\nContent-Lengthy: n\r\n\r\n
          """.utf8)))
    let fields = head.fields
    #expect(fields.count == 11)
    #expect(fields.values(.setCookie) == ["a", "b", "c"])
    #expect(fields.values(named: "SET-cookie") == ["a", "b", "c"])
    #expect(fields.first(.contentType) == "t")
    #expect(fields.first(.location) == "l")
    #expect(fields.first(.contentEncoding) == "gzip")
    #expect(fields.first(.keepAlive) == "k")
    #expect(fields.first(.connection) == "c")
    #expect(fields.firstIndex(.contentLength) == 7)
    #expect(!fields.has(.transferEncoding))
    #expect(fields.first(.transferEncoding) == nil)
    #expect(fields.first(named: "x") == "1")
    #expect(fields.first(named: "y") == nil)
    #expect(fields.name(at: 2) == "LOCATION")
    #expect(fields.pairs.count == 11)
  }

  /// Names of known length and similar letters are told apart.
  @Test(arguments: KnownField.allCases)
  func knowsOnlyItsOwnNames(_ field: KnownField) throws {
    for position in 0..<field.name.utf8.count {
      var name = Array(field.name.utf8)
      for other in [UInt8(ascii: "x"), UInt8(ascii: "_"), UInt8(ascii: "0"), UInt8(ascii: "~"), UInt8(ascii: "^")] {
        name[position] = other
        let bytes = Array("HTTP/1.1 200 OK\r\n".utf8) + name + Array(": 1\r\n\r\n".utf8)
        var parser = ResponseParser()
        parser.begin(RequestContext(isHead: true))
        let head = try #require(try read(&parser, bytes))
        let isSame = String(decoding: name, as: UTF8.self) == field.name
        #expect(head.fields.has(field) == isSame, "\(String(decoding: name, as: UTF8.self))")
      }
    }
  }

  @Test func emptySectionsAnswer() throws {
    let section = FieldSection()
    #expect(section.isEmpty)
    #expect(section.first(named: "x") == nil)
    #expect(KnownField.allCases.allSatisfy { !section.has($0) && section.values($0).isEmpty })
    let decision = try FramingDecision.decide(status: 200, version: .http11, fields: section)
    #expect(decision == FramingDecision(body: .untilClose, reuse: .close(.bodyUntilClose)))
  }

  @Test func repeatsItsErrorForEver() throws {
    var parser = ResponseParser()
    parser.begin()
    let bytes = Array("nonsense".utf8)
    for _ in 0..<3 {
      var offset = 0
      #expect(throws: WireError(.invalidStatusLine, at: 0)) { _ = try parser.next(bytes.span, &offset) }
    }
    parser.begin()
    var offset = 0
    #expect(throws: WireError(.invalidStatusLine, at: 0)) { _ = try parser.next(Self.response.span, &offset) }
    #expect(throws: WireError(.invalidStatusLine, at: 0)) { _ = try parser.finish() }
    #expect(parser.reuseVerdict == .close(.failed))
  }

  @Test func verdictIsFinalAtTheEndOnly() throws {
    var parser = ResponseParser()
    #expect(parser.reuseVerdict == .close(.responseUnfinished))
    parser.begin()
    var offset = 0
    _ = try parser.next(Self.response.span, &offset)
    #expect(parser.reuseVerdict == .close(.responseUnfinished))
    #expect(try read(&parser, Array(Self.response[offset...])) == nil)
    #expect(parser.reuseVerdict == .reusable)
    #expect(parser.consumed == Self.response.count)
    parser.rejectBytesAfterEnd()
    #expect(parser.reuseVerdict == .close(.bytesAfterResponse))
    parser.begin()
    #expect(try read(&parser, Self.response)?.status == 200)
    #expect(parser.reuseVerdict == .reusable)
  }

  /// What one response needed of a leniency is not held against the next.
  @Test(
    arguments: [
      "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok",
      "HTTP/1.1 100 Continue\r\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
    ]) func ambiguityEndsWithItsResponse(_ ambiguous: String) throws
  {
    var parser = ResponseParser(leniency: [.bareLineFeed, .bareLineFeedInChunks])
    for _ in 0..<2 {
      parser.begin()
      #expect(try read(&parser, Array(ambiguous.utf8))?.status == 200)
      #expect(parser.reuseVerdict == .close(.ambiguousFraming))
      parser.rejectBytesAfterEnd()
      #expect(parser.reuseVerdict == .close(.ambiguousFraming))
      parser.begin()
      #expect(try read(&parser, Self.response)?.status == 200)
      #expect(parser.reuseVerdict == .reusable)
      parser.begin()
      let chunks = Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n".utf8)
      #expect(try read(&parser, chunks)?.status == 200)
      #expect(parser.reuseVerdict == .reusable)
    }
  }

  /// Who decodes chunks without the parser is told too, wherever the body is cut.
  @Test(
    arguments: [
      ("2\r\nok\r\n0\r\n\r\n", false), ("2\nok\r\n0\r\n\r\n", true), ("2\r\nok\n0\r\n\r\n", true),
      ("0;\n\r\n", true), ("0\r\n\n", true), ("0\r\nX: y\n\r\n", true), ("1\r\n\n\r\n0\r\nX: y\r\n\r\n", false),
    ]) func chunksSayWhetherTheyAreAmbiguous(_ text: String, _ isAmbiguous: Bool) throws
  {
    let bytes = Array(text.utf8)
    for cut in 0...bytes.count {
      var decoder = ChunkedDecoder(leniency: [.bareLineFeed, .bareLineFeedInChunks])
      var hasEnded = false
      for piece in [Array(bytes[..<cut]), Array(bytes[cut...])] {
        var offset = 0
        reading: while true {
          switch try decoder.next(piece.span, &offset) {
          case .needMore: break reading
          case .end:
            hasEnded = true
            break reading
          case .data, .trailers: continue
          }
        }
      }
      #expect(hasEnded && decoder.hasAmbiguousFraming == isAmbiguous, "cut at \(cut)")
    }
  }

  @Test func storageCanBeGivenBackBetweenResponses() throws {
    var parser = ResponseParser()
    for _ in 0..<3 {
      parser.releaseStorage()
      parser.begin()
      parser.releaseStorage()
      let head = try read(&parser, Self.response)
      #expect(parser.reuseVerdict == .reusable)
      #expect(parser.keptBytes > 0)
      parser.releaseStorage()
      // Not even the head of a response that was read to its end.
      #expect(parser.keptBytes == 0)
      #expect(parser.consumed == Self.response.count)
      #expect(head?.fields.first(named: "x-name") == "value")
    }
  }

  @Test func storageOfAResponseUnderWayStays() throws {
    var parser = ResponseParser()
    parser.begin()
    var offset = 0
    let half = Array(Self.response[..<20])
    #expect(try parser.next(half.span, &offset) == .needMore)
    parser.releaseStorage()
    #expect(parser.keptBytes > 0)
    #expect(try read(&parser, Array(Self.response[20...]))?.status == 200)
  }

  @Test func headsAreEqualByWhatTheySay() throws {
    var first = ResponseParser()
    var second = ResponseParser()
    first.begin()
    second.begin()
    let left = try read(&first, Self.response)
    #expect(try left == read(&second, Self.response))
    second.begin()
    #expect(try left != read(&second, Array("HTTP/1.1 200 OK\r\nX-Name: valuE\r\nContent-Length: 2\r\n\r\nok".utf8)))
  }
}
