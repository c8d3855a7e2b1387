internal import Synchronization
internal import Logging
internal import LupineRules

extension TaskRun {
  /// One record of the end, for whoever keeps a log. Of the request it says no more than the record of the beginning: no fields, and of the URL neither a user
  /// nor tokens. A failure is at the same level as an answer: it is thrown, and whether it matters is up to the caller (swift-log, "Choosing log levels").
  func log(_ result: Result<Response, SessionError>, to logger: Logger) {
    switch result {
    case .success(let response) where !isBodyTooLarge:
      logger.debug(
        "task answered",
        metadata: metadata(url: response.urlString, response.metrics, ["status": "\(response.statusCode)"]))
    case .success(let response):
      logger.debug(
        "task failed", metadata: metadata(url: response.urlString, response.metrics, failed(nil, response)))
    case .failure(let error):
      logger.debug(
        "task failed",
        metadata: metadata(
          url: error.response?.urlString ?? error.failingURL ?? currentURL.requestString, error.metrics,
          failed(error, error.response)))
    }
  }

  /// - Parameter error: nil, or the cancellation, where it was us who gave a large body up.
  private func failed(_ error: SessionError?, _ response: Response?) -> Logger.Metadata {
    let (code, phase) =
      isBodyTooLarge
      ? (SessionError.Code.bodyTooLarge, SessionError.Phase.receive) : (error?.code ?? .unknown, error?.phase ?? .total)
    var facts: Logger.Metadata = ["error": "\(code)", "phase": "\(phase)"]
    if let status = response?.statusCode { facts["status"] = "\(status)" }
    return facts
  }

  private func metadata(url: String, _ metrics: TaskMetrics?, _ facts: Logger.Metadata) -> Logger.Metadata {
    let transactions = metrics?.transactions ?? []
    let milliseconds = (metrics?.duration ?? .zero) / .milliseconds(1)
    var metadata = facts
    metadata["task"] = "\(identifier)"
    metadata["method"] = "\(transactions.last?.method ?? request.method.rawValue)"
    metadata["url"] = "\(SecretText.redacted(url: url))"
    metadata["bytes"] = "\(receivedBytes.load(ordering: .relaxed))"
    metadata["milliseconds"] = "\((milliseconds * 1000).rounded() / 1000)"
    metadata["requests"] = "\(transactions.count)"
    metadata["reused"] = "\(transactions.last?.isReusedConnection ?? false)"
    return metadata
  }
}
