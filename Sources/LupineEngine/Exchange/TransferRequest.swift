package import LupineWire

/// The body of a request.
package enum RequestBody: Sendable {
  case none
  case bytes([UInt8])
  case file(FileBody)
  case stream(StreamBody)
  /// Pieces, one after another, of so many bytes in all: each has a length.
  case segments([BodySegment], length: Int64)

  /// Whether a second attempt can send the same bytes again.
  package var isReplayable: Bool {
    switch self {
    case .none, .bytes, .file: true
    case .stream(let stream): stream.isReplayable
    case .segments(let segments, _): segments.allSatisfy(\.isReplayable)
    }
  }
}

/// A piece of a body that has several.
package enum BodySegment: Sendable {
  case bytes([UInt8])
  case file(FileBody)
  case stream(StreamBody)

  var isReplayable: Bool {
    if case .stream(let stream) = self { stream.isReplayable } else { true }
  }
}

/// Part of a file, opened when it is sent; sent with `sendfile` where the connection is plaintext.
package struct FileBody: Sendable, Equatable {
  package var path: String
  package var offset: Int64
  package var length: Int64
  /// What the whole file must have while it is sent; nil: it may grow. Looked at when the file is opened, and again before its last bytes go,
  /// so that no request is complete whose file changed on the way.
  package var fileSize: Int64?

  package init(path: String, offset: Int64 = 0, length: Int64, fileSize: Int64? = nil) {
    self.path = path
    self.offset = offset
    self.length = length
    self.fileSize = fileSize
  }
}

/// A body that somebody else produces.
package struct StreamBody: Sendable {
  /// Bytes in all, if known; otherwise the body is chunked.
  package var length: Int64?
  /// Whether `start` may be called again for another attempt.
  package var isReplayable: Bool
  /// Called when the body is wanted, on the loop: begin to write into the channel, from any thread.
  package var start: @Sendable (BodyChannel) -> Void

  package init(length: Int64?, isReplayable: Bool, start: @escaping @Sendable (BodyChannel) -> Void) {
    self.length = length
    self.isReplayable = isReplayable
    self.start = start
  }
}

/// A request as the engine sees it: bytes to send and rules to follow. Large: it is made once, in its transfer, and read there in pieces.
package struct TransferRequest: Sendable {
  /// Where to.
  package let key: PoolKey
  /// Request line and fields, with the empty line, ready for the wire.
  package let head: [UInt8]
  /// The same without `Expect`, for a second attempt after 417 (RFC 9110 15.5.18).
  package let headWithoutExpectation: [UInt8]?
  /// What the response parser must know of the request.
  package let context: RequestContext
  package let body: RequestBody
  package let method: String
  /// The caller marked the request as safe to repeat (`Idempotency-Key`).
  package let hasIdempotencyKey: Bool
  /// The request says that it is the last on its connection (`Connection: close`).
  package let closesConnection: Bool
  package let deadlines: Deadlines
  /// Decode the content codings that the request offered itself.
  package let decodesContent: Bool
  /// Decoded bytes for each byte that came, in the place of the pool's `DecodeLimits.maximumRatio`: `UInt64.max` for no bound. Nil: the pool's.
  package let maximumRatio: UInt64?
  /// Its place among those that wait for a connection to the same place.
  package let priority: TransferPriority
  /// The target in absolute form, for a proxy that forwards; nil for every other way. `head` is in that form then, without
  /// `Proxy-Authorization`.
  package let forwardTarget: String?

  package init(
    key: PoolKey, method: String, head: [UInt8], headWithoutExpectation: [UInt8]? = nil, context: RequestContext,
    body: RequestBody = .none, hasIdempotencyKey: Bool = false, closesConnection: Bool = false,
    deadlines: Deadlines = Deadlines(), decodesContent: Bool = true, maximumRatio: UInt64? = nil,
    priority: TransferPriority = .default, forwardTarget: String? = nil
  ) {
    self.key = key
    self.method = method
    self.head = head
    self.headWithoutExpectation = headWithoutExpectation
    self.context = context
    self.body = body
    self.hasIdempotencyKey = hasIdempotencyKey
    self.closesConnection = closesConnection
    self.deadlines = deadlines
    self.decodesContent = decodesContent
    self.maximumRatio = maximumRatio
    self.priority = priority
    self.forwardTarget = forwardTarget
  }
}
