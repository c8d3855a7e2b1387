internal import LupineWire

/// Oracle: every split of the input gives the same events and the same error at the same offset; each step takes bytes or says why not;
/// a head that was accepted strictly, written down again, is read as the same head; fields looked up by name are those of a plain walk, and
/// the framing is what the head says when it is judged apart.
///
/// The first two bytes choose request, leniency and limits; the rest is what the peer sends, then closes.
package enum ResponseParserFuzz {
  private enum Step: Equatable {
    case informational(ResponseHead)
    case head(ResponseHead, BodyFraming)
    case body([UInt8])
    case trailers(FieldSection)
    case end(ReuseVerdict, taken: Int)
    case failed(WireError)
  }

  package static func run(bytes: [UInt8]) {
    guard bytes.count >= 2 else { return }
    let request = RequestContext(
      isHead: bytes[0] & 1 != 0, isConnect: bytes[0] & 2 != 0, offersUpgrade: bytes[0] & 4 != 0)
    let leniency = WireLeniency(rawValue: UInt32(bytes[0] >> 4) | UInt32(bytes[1] >> 2) << 4)
    var limits = WireLimits()
    if bytes[0] & 8 != 0 {
      limits.statusLine = 24
      limits.fieldLine = 40
      limits.head = 200
      limits.fields = 5
      limits.informationalHeads = 2
      limits.chunkLine = 12
      limits.chunkExtensions = 20
      limits.trailers = 60
      limits.trailerFields = 3
    }
    let input = Array(bytes.dropFirst(2))
    let whole = feed(input, pieces: max(1, input.count), request, leniency, limits)
    for pieces in [1, 2 + Int(bytes[1]) * 7 % 61] {
      let split = feed(input, pieces: pieces, request, leniency, limits)
      precondition(split == whole, "in pieces of \(pieces): \(split); whole: \(whole)")
    }
    for step in whole {
      switch step {
      case .informational(let head): lookUp(head.fields)
      case .head(let head, let framing):
        lookUp(head.fields)
        if leniency.isEmpty { rewrite(head, isConnect: request.isConnect) }
        let decision = try? FramingDecision.decide(
          status: head.status, version: head.version, fields: head.fields, request: request, leniency: leniency)
        precondition(decision?.body == framing, "another framing when judged apart")
      case .trailers(let section): lookUp(section)
      case .body, .end, .failed: break
      }
    }
  }

  private static func feed(
    _ input: [UInt8], pieces: Int, _ request: RequestContext, _ leniency: WireLeniency, _ limits: WireLimits
  ) -> [Step] {
    var parser = ResponseParser(limits: limits, leniency: leniency)
    var steps: [Step] = []
    var taken = 0
    parser.begin(request)
    do {
      for start in stride(from: 0, to: input.count, by: pieces) {
        let piece = Array(input[start..<min(start + pieces, input.count)])
        var offset = 0
        feeding: while true {
          let before = offset
          let event = try parser.next(piece.span, &offset)
          precondition(offset >= before && offset <= piece.count, "offset \(offset) of \(piece.count)")
          taken += offset - before
          switch event {
          case .needMore:
            precondition(offset == piece.count, "bytes left, and more wanted")
            break feeding
          case .informational(let head): steps.append(.informational(head))
          case .head(let head, let framing): steps.append(.head(head, framing))
          case .body(let range):
            precondition(range.lowerBound >= before && range.upperBound <= offset && !range.isEmpty, "range \(range)")
            if case .body(let earlier) = steps.last {
              steps[steps.count - 1] = .body(earlier + piece[range])
            } else {
              steps.append(.body(Array(piece[range])))
            }
          case .trailers(let section): steps.append(.trailers(section))
          case .end:
            steps.append(.end(parser.reuseVerdict, taken: taken))
            end(&parser)
            return steps
          }
        }
        precondition(parser.consumed == taken, "\(parser.consumed) bytes counted, \(taken) taken")
      }
      _ = try parser.finish()
      return steps + [.end(parser.reuseVerdict, taken: taken)]
    } catch {
      precondition(parser.reuseVerdict == .close(.failed), "a failed connection may be used again")
      precondition(error.offset >= 0 && error.offset <= input.count, "error beyond the input")
      return steps + [.failed(error)]
    }
  }

  /// After its end a connection can only become worse.
  private static func end(_ parser: inout ResponseParser) {
    let verdict = parser.reuseVerdict
    parser.releaseStorage()
    precondition(parser.keptBytes == 0 && parser.bodyRemaining == nil, "memory is kept")
    parser.rejectBytesAfterEnd()
    let isReusable = verdict == .reusable
    precondition(parser.reuseVerdict == (isReusable ? .close(.bytesAfterResponse) : verdict), "a verdict improved")
  }

  private static func lookUp(_ fields: FieldSection) {
    let pairs = fields.pairs
    precondition(fields.isEmpty == pairs.isEmpty && fields.isEmpty == fields.description.isEmpty)
    for known in KnownField.allCases {
      let values = pairs.filter { $0.name.lowercased() == known.name }.map(\.value)
      precondition(
        fields.values(known) == values && fields.values(named: known.name) == values, "not the values of a name")
      precondition(fields.first(known) == values.first && fields.has(known) == !values.isEmpty)
    }
    for (name, value) in pairs.prefix(2) {
      precondition(fields.values(named: name.uppercased()).contains(value) && fields.first(named: name) != nil)
    }
    // What a transport that reads nothing would make of them. Values that are not UTF-8 become other bytes by way of strings.
    guard pairs.allSatisfy({ $0.value.utf8.allSatisfy { $0 < 0x7F && $0 >= 0x20 } }) else { return }
    guard let made = try? FieldSection(pairs) else { preconditionFailure("a section that was read cannot be made") }
    precondition(made.pairs.elementsEqual(pairs) { $0 == $1 }, "another section when made of its parts")
  }

  private static func rewrite(_ head: ResponseHead, isConnect: Bool) {
    var wire = Array("\(head.version) \(head.status) ".utf8)
    append(head.reasonBytes, to: &wire)
    wire += Array("\r\n".utf8)
    for index in 0..<head.fields.count {
      append(head.fields.nameBytes(at: index), to: &wire)
      wire += Array(": ".utf8)
      append(head.fields.valueBytes(at: index), to: &wire)
      wire += Array("\r\n".utf8)
    }
    wire += Array("\r\n".utf8)
    var limits = WireLimits()
    limits.fieldLine += 1
    limits.head *= 2
    var parser = ResponseParser(limits: limits)
    parser.begin(RequestContext(isHead: true, isConnect: isConnect, offersUpgrade: true))
    var offset = 0
    guard case .head(let again, _)? = try? parser.next(wire.span, &offset) else {
      preconditionFailure("refused when written again: \(String(decoding: wire, as: UTF8.self).debugDescription)")
    }
    precondition(again == head && offset == wire.count, "read differently when written again")
  }

  private static func append(_ bytes: Span<UInt8>, to wire: inout [UInt8]) {
    for index in 0..<bytes.count { wire.append(bytes[index]) }
  }
}
