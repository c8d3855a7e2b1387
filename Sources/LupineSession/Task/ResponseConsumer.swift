internal import LupineIO

/// What a task does with the response that it ends with. Called on the transport's thread, serially.
protocol ResponseConsumer: AnyObject, Sendable {
  /// Whether this answer to a request for a range is of no use: it is dropped then, and the request is sent again without `Range` and
  /// `If-Range`. Asked for each final head, before `receive`.
  func wantsWhole(insteadOf response: Response) -> Bool
  /// The head of the final response: redirects are behind it.
  func receive(_ response: Response, from exchange: any TransportExchange)
  /// Body bytes. Pause the exchange to stop them.
  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange)
  /// Whether delegates are told of the end: then the task holds its own until that is done.
  var tellsDelegates: Bool { get }
  /// The end, once: the response is complete with trailers and metrics, or the error holds what there was of it.
  func end(_ result: Result<Response, SessionError>)
}

extension ResponseConsumer {
  func wantsWhole(insteadOf response: Response) -> Bool { false }
  var tellsDelegates: Bool { false }
}

/// A consumer that takes bytes of the body in a pipe.
protocol PipeConsumer: ResponseConsumer {
  /// Where the next bytes may go; nil: they are shown.
  func pipe() -> BodyPipe?
  /// So many bytes are in the pipe, behind all that were shown.
  func receive(piped count: Int, from exchange: any TransportExchange)
}

/// A consumer whose end takes time, because a file has to be completed or somebody asked: the task is over only then.
protocol DeferredConsumer: ResponseConsumer {
  /// Whether `end(_:of:)` is to be called instead of `end`.
  var endsLater: Bool { get }
  /// The end. It calls `TaskRun.settle` once, from any thread.
  func end(_ result: Result<Response, SessionError>, of run: TaskRun)
}
