/// What a task does with the response that it ends with. Called on the transport's thread, serially.
protocol ResponseConsumer: AnyObject, Sendable {
  /// The head of the final response: redirects are behind it.
  func receive(_ response: Response, from exchange: any TransportExchange)
  /// Body bytes. Pause the exchange to stop them.
  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange)
  /// The end, once: the response is complete with trailers and metrics, or the error holds what there was of it.
  func end(_ result: Result<Response, SessionError>)
}
