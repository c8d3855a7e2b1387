import LupineBase

/// What the parser of a response must know of its request.
public struct RequestContext: Sendable, Equatable {
  /// The method is HEAD: the response has no body, whatever its fields say.
  public var isHead: Bool
  /// The method is CONNECT: a 2xx response turns the connection into a tunnel.
  public var isConnect: Bool
  /// The request offered an upgrade: a 101 response hands the connection over. Without it, 101 is an error.
  public var offersUpgrade: Bool

  /// The context of a plain request, or of the given kind.
  public init(isHead: Bool = false, isConnect: Bool = false, offersUpgrade: Bool = false) {
    self.isHead = isHead
    self.isConnect = isConnect
    self.offersUpgrade = offersUpgrade
  }
}

/// How the end of a response body is found (RFC 9112 section 6.3).
public enum BodyFraming: Equatable, Hashable, Sendable {
  /// No body.
  case none
  /// So many bytes.
  case length(Int64)
  /// Chunks, then trailers.
  case chunked
  /// Everything until the peer closes.
  case untilClose
}

/// Why a connection cannot carry another request.
public enum CloseReason: Equatable, Hashable, Sendable {
  /// The response has not ended yet.
  case responseUnfinished
  /// The peer said `Connection: close`, or in `Keep-Alive` that it waits for no time or takes no more requests.
  case peerRequestedClose
  /// HTTP/1.0 without `Connection: keep-alive`.
  case notPersistent
  /// The body ends with the connection.
  case bodyUntilClose
  /// The connection became a tunnel (CONNECT) or another protocol (101).
  case protocolSwitched
  /// A response that can have no body (1xx, 204) announced one: what follows may be that body.
  case bodyAnnouncedWhereNoneIsAllowed
  /// A leniency accepted framing that other readers of the same bytes may understand otherwise.
  case ambiguousFraming
  /// Bytes came after the end of the response.
  case bytesAfterResponse
  /// The response was malformed.
  case failed
}

/// Whether a connection may be used again after a response, as far as the response decides.
public enum ReuseVerdict: Equatable, Hashable, Sendable {
  case reusable
  case close(CloseReason)
}

/// What a head says about the body and about the connection.
public struct FramingDecision: Equatable, Sendable {
  /// How the end of the body is found.
  public var body: BodyFraming
  /// Whether the connection may be used again once the body has ended.
  public var reuse: ReuseVerdict

  /// A decision that was taken elsewhere.
  public init(body: BodyFraming, reuse: ReuseVerdict) {
    self.body = body
    self.reuse = reuse
  }

  /// The one decision about framing (RFC 9112 sections 6.3 and 9.3): a pure function of what the head says and of the request.
  ///
  /// The fields are judged first, whatever the status: a malformed Content-Length, or Content-Length together with
  /// Transfer-Encoding, is refused in a 204 and in the answer to a HEAD too. Only in a 2xx to CONNECT they say nothing, whatever they say.
  ///
  /// Fields do not show how their lines ended: that a leniency let one pass is known to ``ResponseParser/reuseVerdict`` alone.
  ///
  /// - Returns: the framing of the body. A 101 and a 2xx to CONNECT have none: the bytes after the head are not HTTP.
  /// - Throws: ``WireError`` with an offset inside the storage of `fields`.
  public static func decide(
    status: Int, version: HTTPVersion, fields: FieldSection, request: RequestContext = RequestContext(),
    leniency: WireLeniency = []
  ) throws(WireError) -> FramingDecision {
    if fields.isEmpty {
      var nothing = [UInt8](repeating: 0, count: IndexHeader.size * FieldEntry.size)
      var bytes = nothing.mutableSpan
      IndexHeader.write(&bytes, at: 0, count: 0)
      return try decide(status, version, IndexedBytes(nothing, 0), request, leniency)
    }
    return try decide(status, version, IndexedBytes(fields.storage, fields.indexStart), request, leniency)
  }

  static func decide(
    _ status: Int, _ version: HTTPVersion, _ fields: borrowing IndexedBytes, _ request: RequestContext,
    _ leniency: WireLeniency
  ) throws(WireError) -> FramingDecision {
    // RFC 9110 section 9.3.6: a client must ignore both fields.
    if request.isConnect, (200...299).contains(status) {
      return FramingDecision(body: .none, reuse: .close(.protocolSwitched))
    }
    let length = try contentLength(fields)
    let isChunked = try transferEncoding(fields)
    var close: CloseReason? = nil

    if isChunked, let index = fields.firstIndex(.transferEncoding) {
      let offset = Int(fields.entry(index).valueStart)
      if version < .http11 {
        guard leniency.contains(.transferEncodingOnHTTP10) else {
          throw WireError(.transferEncodingOnHTTP10, at: offset)
        }
        close = .ambiguousFraming
      }
      if length != nil {
        guard leniency.contains(.contentLengthWithTransferEncoding) else {
          throw WireError(.contentLengthWithTransferEncoding, at: offset)
        }
        close = .ambiguousFraming
      }
    }

    if status == 101 {
      return FramingDecision(body: .none, reuse: .close(.protocolSwitched))
    }
    if status < 200 || status == 204 {
      if isChunked || (length ?? 0) > 0 { close = close ?? .bodyAnnouncedWhereNoneIsAllowed }
      return FramingDecision(body: .none, reuse: reuse(version, fields, close))
    }
    if request.isHead || status == 304 {
      return FramingDecision(body: .none, reuse: reuse(version, fields, close))
    }
    if isChunked {
      return FramingDecision(body: .chunked, reuse: reuse(version, fields, close))
    }
    if let length {
      return FramingDecision(body: .length(length), reuse: reuse(version, fields, close))
    }
    return FramingDecision(body: .untilClose, reuse: .close(.bodyUntilClose))
  }

  /// The value of Content-Length: digits only, below 2^63; lists and repeated fields only if every value is the same.
  @inline(__always)
  static func contentLength(_ fields: borrowing IndexedBytes) throws(WireError) -> Int64? {
    guard let first = fields.firstIndex(.contentLength) else { return nil }
    if let number = plainDecimal(fields, first) { return number }
    return try listedLength(fields, first)
  }

  @inline(never)
  private static func listedLength(_ fields: borrowing IndexedBytes, _ first: Int) throws(WireError) -> Int64? {
    var result: Int64? = nil
    var index: Int? = first
    while let field = index {
      let value = fields.value(field)
      let offset = Int(fields.entry(field).valueStart)
      var position = 0
      repeat {
        let number = try decimal(value, &position, offset)
        if let result, result != number { throw WireError(.conflictingContentLengths, at: offset) }
        result = number
      } while position <= value.count
      index = fields.nextIndex(.contentLength, after: field)
    }
    return result
  }

  /// The value of the only Content-Length if it is 1 to 18 digits and nothing else, which is how almost every one looks.
  @inline(__always)
  private static func plainDecimal(_ fields: borrowing IndexedBytes, _ first: Int) -> Int64? {
    let value = fields.value(first)
    guard !fields.isRepeated(.contentLength), !value.isEmpty, value.count <= 18 else { return nil }
    var number: Int64 = 0
    for index in 0..<value.count {
      guard value[index].isDigit else { return nil }
      number = number &* 10 &+ Int64(value[index] &- 0x30)
    }
    return number
  }

  /// Reads one list member and moves `position` past the comma behind it, or past the end if it was the last one.
  private static func decimal(_ value: Span<UInt8>, _ position: inout Int, _ offset: Int) throws(WireError) -> Int64 {
    while position < value.count, value[position].isWhitespace { position += 1 }
    var number: Int64 = 0
    let start = position
    while position < value.count, value[position].isDigit {
      let (product, overflow) = number.multipliedReportingOverflow(by: 10)
      let (sum, carry) = product.addingReportingOverflow(Int64(value[position] &- 0x30))
      if overflow || carry { throw WireError(.contentLengthTooLarge, at: offset) }
      number = sum
      position += 1
    }
    if position == start { throw WireError(.invalidContentLength, at: offset) }
    while position < value.count, value[position].isWhitespace { position += 1 }
    if position < value.count, value[position] != .comma { throw WireError(.invalidContentLength, at: offset) }
    position += 1
    return number
  }

  /// Whether there is a Transfer-Encoding; it must be exactly one `chunked`.
  @inline(__always)
  private static func transferEncoding(_ fields: borrowing IndexedBytes) throws(WireError) -> Bool {
    guard let first = fields.firstIndex(.transferEncoding) else { return false }
    return try isChunked(fields, first)
  }

  @inline(never)
  private static func isChunked(_ fields: borrowing IndexedBytes, _ first: Int) throws(WireError) -> Bool {
    if let second = fields.nextIndex(.transferEncoding, after: first) {
      throw WireError(.unsupportedTransferEncoding, at: Int(fields.entry(second).valueStart))
    }
    guard isToken(fields.value(first), chunked) else {
      throw WireError(.unsupportedTransferEncoding, at: Int(fields.entry(first).valueStart))
    }
    return true
  }

  @inline(__always)
  private static func reuse(_ version: HTTPVersion, _ fields: borrowing IndexedBytes, _ close: CloseReason?)
    -> ReuseVerdict
  {
    if let close { return .close(close) }
    guard let first = fields.firstIndex(.connection) else {
      return version < .http11 ? .close(.notPersistent) : .reusable
    }
    // Almost every Connection field says `keep-alive` alone, and that is the name of a known field too.
    let place = fields.entry(first).value
    if !fields.isRepeated(.connection),
      FieldScanner.classify(fields.bytes, place.lowerBound, place.upperBound) == .keepAlive
    {
      return refusesNext(fields) ? .close(.peerRequestedClose) : .reusable
    }
    let (hasClose, hasKeepAlive) = connectionOptions(fields)
    if hasClose || hasKeepAlive && refusesNext(fields) { return .close(.peerRequestedClose) }
    if version < .http11, !hasKeepAlive { return .close(.notPersistent) }
    return .reusable
  }

  /// Whether the peer keeps the connection, but not for another request.
  @inline(__always)
  private static func refusesNext(_ fields: borrowing IndexedBytes) -> Bool {
    fields.firstIndex(.keepAlive) != nil && KeepAlive(fields).isOver
  }

  /// For how many seconds the peer waits for the next request; nil: it does not say. A `Keep-Alive` counts beside the option `keep-alive` alone
  /// (RFC 2068 section 19.7.1.1).
  @inline(never)
  static func keepAliveSeconds(_ fields: borrowing IndexedBytes) -> Int? {
    guard fields.firstIndex(.keepAlive) != nil, connectionOptions(fields).keepAlive else { return nil }
    return KeepAlive(fields).timeout
  }

  /// Whether the connection options hold `close` and `keep-alive` (RFC 9110 section 7.6.1).
  @inline(never)
  private static func connectionOptions(_ fields: borrowing IndexedBytes) -> (close: Bool, keepAlive: Bool) {
    var result = (close: false, keepAlive: false)
    var index = fields.firstIndex(.connection)
    while let field = index {
      let value = fields.value(field)
      var position = 0
      while position < value.count {
        while position < value.count, value[position].isWhitespace || value[position] == .comma { position += 1 }
        let start = position
        while position < value.count, value[position] != .comma { position += 1 }
        var end = position
        while end > start, value[end - 1].isWhitespace { end -= 1 }
        let option = value.extracting(start..<end)
        if isToken(option, close) { result.close = true }
        if isToken(option, keepAlive) { result.keepAlive = true }
      }
      index = fields.nextIndex(.connection, after: field)
    }
    return result
  }

  private static func isToken(_ bytes: Span<UInt8>, _ token: InlineArray<5, UInt8>) -> Bool {
    guard bytes.count == 5 else { return false }
    for index in 0..<5 where bytes[index].lowercased != token[index] { return false }
    return true
  }

  private static func isToken(_ bytes: Span<UInt8>, _ token: InlineArray<7, UInt8>) -> Bool {
    guard bytes.count == 7 else { return false }
    for index in 0..<7 where bytes[index].lowercased != token[index] { return false }
    return true
  }

  private static func isToken(_ bytes: Span<UInt8>, _ token: InlineArray<10, UInt8>) -> Bool {
    guard bytes.count == 10 else { return false }
    for index in 0..<10 where bytes[index].lowercased != token[index] { return false }
    return true
  }

  /// `close`, `chunked` and `keep-alive` in small letters.
  private static let close: InlineArray<5, UInt8> = [0x63, 0x6C, 0x6F, 0x73, 0x65]
  private static let chunked: InlineArray<7, UInt8> = [0x63, 0x68, 0x75, 0x6E, 0x6B, 0x65, 0x64]
  private static let keepAlive: InlineArray<10, UInt8> = [
    0x6B, 0x65, 0x65, 0x70, 0x2D, 0x61, 0x6C, 0x69, 0x76, 0x65,
  ]
}

extension FieldSection {
  /// The length that `Content-Length` announces, below 2^63; of several values only if all are the same (RFC 9112 section 6.3). Nil if it announces none.
  package var contentLength: Int64? {
    storage.isEmpty ? nil : (try? FramingDecision.contentLength(IndexedBytes(storage, indexStart)))
  }
}

/// A section as the framing decision sees it: its storage by itself, so that deciding counts no references.
struct IndexedBytes: ~Copyable, ~Escapable {
  let bytes: Span<UInt8>
  private let indexStart: Int

  @_lifetime(borrow storage)
  init(_ storage: borrowing [UInt8], _ indexStart: Int) {
    bytes = storage.span
    self.indexStart = indexStart
  }

  @inline(__always)
  func entry(_ index: Int) -> FieldEntry {
    bytes.load(at: IndexHeader.place(index, indexStart), as: FieldEntry.self)
  }

  private var header: FieldEntry { bytes.load(at: indexStart, as: FieldEntry.self) }

  @inline(__always)
  @_lifetime(copy self)
  func value(_ index: Int) -> Span<UInt8> { bytes.extracting(entry(index).value) }

  @inline(__always)
  func firstIndex(_ kind: KnownField) -> Int? {
    IndexHeader.firstIndex(bytes, indexStart, kind)
  }

  @inline(__always)
  func isRepeated(_ kind: KnownField) -> Bool { IndexHeader.isRepeated(header, kind) }

  /// The index of the next field with the same name after `index`.
  func nextIndex(_ kind: KnownField, after index: Int) -> Int? {
    guard isRepeated(kind) else { return nil }
    var next = index + 1
    while next < Int(header.nameStart) {
      let name = entry(next).name
      if FieldScanner.classify(bytes, name.lowerBound, name.upperBound) == kind { return next }
      next += 1
    }
    return nil
  }
}
