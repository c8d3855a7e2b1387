public import HTTPTypes
internal import LupineRules

extension BodyStream {
  /// The same stream with fields behind it, in the place of those that it had: what is known only once the body has been read, as its checksum is.
  /// `Request.trailerNames` has to announce them.
  ///
  /// - Parameter trailers: called once when the last chunk has been taken, where the chunks are made; never of a body that is not read to its end. What it
  ///   throws fails the request as a chunk's error does (`SessionError` with `.requestBodyFailed`). Not all that was announced need be there. A field that
  ///   was not announced, more than 128, or more than 16 KiB of them, line ends included, fail it with `.badTrailers`: the connection is closed, and the
  ///   server sees a body that has no end.
  ///
  /// Source: `Request.Trailer` of Go's net/http, which is filled in while the body is read.
  public func withTrailers(_ trailers: @escaping @Sendable () async throws -> HTTPFields) -> BodyStream {
    BodyStream(run: run, trailers: trailers)
  }

  /// What follows without having been announced is told before the first chunk.
  func checkTrailers(announced names: [String]) throws(SessionError) {
    guard trailers != nil, names.isEmpty else { return }
    throw SessionError(
      .badTrailers, phase: .send,
      message: "the body has trailer fields, and Request.trailerNames is empty, or they are those of a part")
  }

  /// What follows the chunks, which have been taken.
  ///
  /// - Throws: `SessionError` with `.requestBodyFailed` or `.badTrailers`.
  func trailerFields(
    announced names: [String]
  ) async throws(SessionError) -> [(name: String, value: String)] {
    guard let trailers else { return [] }
    let given: HTTPFields
    do {
      given = try await trailers()
    } catch {
      try Request.Body.checkCancellation(false)
      throw SessionError(
        .requestBodyFailed, phase: .send, message: "what gives the trailer fields threw: \(error)", underlying: error)
    }
    let fields = given.map { (name: $0.name.rawName, value: $0.value) }
    if let refusal = TrailerRule.refusal(sending: fields, announced: names) {
      throw SessionError(refusal, phase: .send)
    }
    return fields
  }
}

extension Request.Body {
  /// The same body as a stream with trailer fields behind it; see `BodyStream.withTrailers(_:)`. It is called once for each attempt. A file is read and
  /// sent in chunks then, and not by `sendfile`.
  ///
  /// What holds for streams holds for bytes and files then: Digest with `auth-int` cannot hash them (`.cannotAuthenticate`), and a file that was given
  /// without a length has none that progress could count against, or that a file which shrinks meanwhile would fall short of: give one.
  public func withTrailers(_ trailers: @escaping @Sendable () async throws -> HTTPFields) -> Request.Body {
    let body = self
    return .stream(length: knownLength, isReplayable: isReplayable) { body.makeStream().withTrailers(trailers) }
  }
}

extension TransportRequest {
  /// The names of the fields that may follow the body, which is sent in chunks if there are any: `Request.trailerNames`. `fields` announces them. None of a
  /// request without a body.
  public var trailerNames: [String] { composition.hasTrailers ? composition.trailerNames.map(\.rawName) : [] }

  /// Reads the body as `Request.Body.forEachChunk(_:)` does, and then what follows it. For transports and recorders.
  ///
  /// - Returns: the trailer fields; none if `take` wanted no more before the end.
  /// - Throws: `SessionError`, as `forEachChunk` does, and `.badTrailers` for fields that cannot be sent.
  public func readBody(
    _ take: @escaping @Sendable ([UInt8]) async -> Bool
  ) async throws(SessionError) -> [(name: String, value: String)] {
    guard case .stream(let length, _, let makeStream) = body else {
      try await body.forEachChunk(take)
      return []
    }
    let (stream, names) = (makeStream(), trailerNames)
    try stream.checkTrailers(announced: names)
    guard try await Request.Body.read(stream, length, take) else { return [] }
    return try await stream.trailerFields(announced: names)
  }
}

extension ComposedFields {
  /// Whether what is announced may follow a body, and something can give it: told before anything is sent.
  @inline(never)
  func checkTrailers(of body: Request.Body) throws(SessionError) {
    let names = trailerNames
    guard !names.isEmpty else { return }
    let marked = Set(names.filter { isSensitive($0) }.map(\.rawName))
    let refusal = TrailerRule.refusal(
      announcing: names.map(\.rawName), isMarkedSensitive: { name in marked.contains(name) })
    if let refusal { throw SessionError(refusal, phase: .prepare, failingURL: url.requestString) }
    guard case .stream = body else {
      throw SessionError(
        .badTrailers, phase: .prepare,
        message: "the body is no stream, which alone gives trailer fields; see Request.Body.withTrailers",
        failingURL: url.requestString)
    }
  }
}

extension SessionError {
  fileprivate init(_ refusal: TrailerRefusal, phase: Phase, failingURL: String? = nil) {
    self.init(.badTrailers, phase: phase, message: "\(refusal)", failingURL: failingURL, underlying: refusal)
  }
}
