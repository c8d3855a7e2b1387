internal import LupineRules

/// An event that a server sent (WHATWG HTML 9.2), as `MessageEvent` of a browser's `EventSource`.
public struct ServerSentEvent: Hashable, Sendable {
  /// The type, from the field `event`. Default `message`.
  public var type: String
  /// The data: the values of its `data` fields, with LF between them. It may be empty.
  public var data: String
  /// The identifier, from the field `id` of this event, or of the last one before it that had one; empty if none had. Who asks for the stream again
  /// sends it as `Last-Event-ID`, so that the server goes on behind this event.
  public var lastEventID: String
  /// How long to wait before the stream is asked for again, as it has said last, in this event or before, in the field `retry`: at most 2³¹ − 1 ms, nearly 25
  /// days. Nil if it has said nothing.
  public var retry: Duration?

  /// An event of these parts.
  public init(type: String = "message", data: String, lastEventID: String = "", retry: Duration? = nil) {
    self.type = type
    self.data = data
    self.lastEventID = lastEventID
    self.retry = retry
  }

  init(_ event: EventStreamParser.Event) {
    self.init(
      type: event.type, data: event.data, lastEventID: event.lastEventID,
      retry: event.retryMilliseconds.map { .milliseconds($0) })
  }
}

extension ResponseBytes {
  /// The body as server-sent events, `text/event-stream`, each of at most 16 MiB; see `events(upTo:)`.
  public var events: Events { events(upTo: 16 << 20) }

  /// The body as server-sent events, read as WHATWG HTML 9.2.6 says: in UTF-8, whose errors are repaired, with lines that end in LF, CR or CR LF. Comments are
  /// skipped, and an event that the body ends in is dropped.
  ///
  /// Status and media type are not looked at: `Response.statusCode` and `Response.mimeType` say whether there are events to be read. Nor is the stream
  /// asked for again when it ends, as `EventSource` does it: that is up to you, with `ServerSentEvent.lastEventID` and `retry`.
  ///
  /// A stream on which nothing comes for 60 s ends with `.timedOut`, as every request does (`SessionConfiguration.timeoutIntervalForRequest`), unless the server
  /// sends comments meanwhile. To let this one be quiet for as long as a day, set `Request.timeoutInterval` to `.seconds(86_400)`; after seven days it ends
  /// by `Request.totalTimeout`.
  ///
  /// An event that is longer than the limit is an error, `.bodyTooLarge`, as soon as that is known, and the request is cancelled.
  ///
  /// - Parameter limit: the most bytes of an event as they came: of its data and type, and of the line under way with the name of its field. Below 0 counts
  ///   as 0.
  public func events(upTo limit: Int) -> Events { Events(source: source, limit: limit) }

  /// The body as server-sent events.
  public struct Events: AsyncSequence, Sendable {
    /// An event.
    public typealias Element = ServerSentEvent
    /// A `SessionError`; of a reader whose Swift task is cancelled one with `.cancelled`, and no `CancellationError`.
    public typealias Failure = any Error

    let source: BodySource
    let limit: Int

    /// Iterates event by event.
    public func makeAsyncIterator() -> AsyncIterator {
      AsyncIterator(source: source, limit: limit)
    }

    /// Iterates event by event.
    public struct AsyncIterator: AsyncIteratorProtocol {
      private let source: BodySource
      private var parser: EventStreamParser
      private var chunk: [UInt8] = []
      private var index = 0
      private var isOver = false

      /// The identifier with which to ask for the stream again: that of the last event, or of a block behind it that had an `id` and no data.
      public var lastEventID: String { parser.lastEventID }
      /// See `ServerSentEvent.retry`: what the stream has said so far, also behind its last event.
      public var retry: Duration? { parser.retryMilliseconds.map { .milliseconds($0) } }

      init(source: BodySource, limit: Int) {
        self.source = source
        parser = EventStreamParser(limit: limit)
      }

      /// The next event, as soon as its empty line has come; nil at the end.
      ///
      /// - Throws: `SessionError` with `.bodyTooLarge` for an event that is longer than the limit, nil after that; whatever ends the body early.
      public mutating func next() async throws -> ServerSentEvent? {
        while !isOver {
          if let event = try parsed() { return ServerSentEvent(event) }
          guard let next = try await source.next() else { break }
          chunk = next
          index = 0
        }
        isOver = true
        return nil
      }

      private mutating func parsed() throws(SessionError) -> EventStreamParser.Event? {
        do {
          return try parser.next(in: chunk, from: &index)
        } catch {
          isOver = true
          throw source.refusal(
            "an event of the body is longer than \(error.limit) bytes; see ResponseBytes.events(upTo:)")
        }
      }
    }
  }
}
