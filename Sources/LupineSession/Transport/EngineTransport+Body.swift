internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire

extension EngineTransport {
  /// The body in the engine's words. Files are looked at now; their lengths go into the head.
  static func engineBody(_ request: TransportRequest) throws(SessionError) -> RequestBody {
    switch request.body {
    case .none: return .none
    case .bytes(let bytes): return .bytes(bytes)
    case .file(let path, let offset, let length):
      return .file(try fileBody(path, offset, length, request.url))
    case .stream(let length, let isReplayable, let makeStream):
      if request.composition.hasTrailers { return trailedBody(request) }
      return .stream(stream(length, isReplayable, makeStream))
    case .segments(let segments): return try segmentedBody(segments, request)
    }
  }

  private static func stream(
    _ length: Int64?, _ isReplayable: Bool, _ makeStream: @escaping @Sendable () -> BodyStream
  ) -> StreamBody {
    StreamBody(length: length, isReplayable: isReplayable) { channel in BodyPump.start(makeStream, into: channel) }
  }

  /// Only chunks have anything behind them (RFC 9112 section 7.1.2); what was said of a length is held against them all the same.
  @inline(never)
  private static func trailedBody(_ request: TransportRequest) -> RequestBody {
    let (body, names) = (request.body, request.trailerNames)
    return .stream(
      StreamBody(length: nil, isReplayable: body.isReplayable) { channel in
        BodyPump.start({ body.makeStream() }, announced: names, into: channel)
      })
  }

  /// Where the length of a stream is unknown, all goes through one stream, in chunks.
  private static func segmentedBody(
    _ segments: [Request.Body.Segment], _ request: TransportRequest
  ) throws(SessionError) -> RequestBody {
    var pieces: [BodySegment] = []
    var isChunked = false
    var total: Int64 = 0
    for segment in segments {
      let length: Int64
      switch segment {
      case .bytes(let bytes):
        length = Int64(bytes.count)
        pieces.append(.bytes(bytes))
      case .file(let path, let offset, let wanted, let fileSize):
        let file = try fileBody(path, offset, wanted, request.url, fileSize: fileSize)
        length = file.length
        pieces.append(.file(file))
      case .stream(let announced, let isReplayable, let makeStream):
        isChunked = isChunked || announced == nil
        length = announced ?? 0
        pieces.append(.stream(stream(announced, isReplayable, makeStream)))
      }
      let (sum, isTooLarge) = total.addingReportingOverflow(length)
      guard length >= 0, !isTooLarge else {
        throw SessionError(
          .badRequest, phase: .prepare, message: "the lengths of the pieces of the body add up to no length",
          failingURL: request.url.requestString)
      }
      total = sum
    }
    guard isChunked else { return .segments(pieces, length: total) }
    let body = request.body
    return .stream(stream(nil, body.isReplayable) { body.makeStream() })
  }

  /// The length is fixed now, because it goes into the head; a file that shrinks afterwards fails the request.
  private static func fileBody(
    _ path: String, _ offset: Int64, _ length: Int64?, _ url: ParsedURL, fileSize: Int64? = nil
  ) throws(SessionError) -> FileBody {
    let size: Int64
    do throws(IOError) {
      size = try File.open(path).size() ?? -1
    } catch {
      throw SessionError(
        .fileFailed, phase: .prepare, message: "cannot read \(path): \(error)", failingURL: url.requestString,
        underlying: error)
    }
    guard size >= 0 else {
      throw SessionError(
        .fileFailed, phase: .prepare, message: "\(path) is no regular file whose size is known; send it as a stream",
        failingURL: url.requestString)
    }
    if let fileSize, size != fileSize {
      var error = SessionError.fileChanged(path, from: fileSize, to: size, phase: .prepare)
      error.failingURL = url.requestString
      throw error
    }
    let wanted = length ?? size - min(max(0, offset), size)
    guard offset >= 0, wanted >= 0, offset <= size, wanted <= size - offset else {
      throw SessionError(
        .fileFailed, phase: .prepare, message: "\(path) has \(size) bytes, fewer than the body asks for",
        failingURL: url.requestString)
    }
    return FileBody(path: path, offset: offset, length: wanted, fileSize: fileSize)
  }

  static func framing(_ method: String, _ body: RequestBody) -> RequestFraming {
    switch body {
    // What most requests are is asked first: strings that differ are compared at length.
    case .none where method == "GET": .none
    case .none: .withoutBody(method)
    case .bytes(let bytes): .length(Int64(bytes.count))
    case .file(let file): .length(file.length)
    case .stream(let stream): stream.length.map { .length($0) } ?? .chunked
    case .segments(_, let length): .length(length)
    }
  }
}
