public import Foundation
internal import LupineBase
public import LupineSession

/// Uploads as `async` calls: the tasks of `uploadTask(…)`, with their hooks, notifications and repetitions, and with progress. Cancelling the Swift task
/// cancels the upload. An upload whose progress nobody wants is cheaper as `response(for:serializer:)`, with the body in the request.
extension SessionManager {
  /// Sends bytes, and makes a value of the response.
  ///
  /// - Parameters:
  ///   - serializer: makes the value, in the place of the manager's.
  ///   - progress: of the request, told on the delegate queue, or `progressQueue`. Default nil.
  /// - Returns: the value, and the response with trailers and metrics.
  /// - Throws: `SessionError`; what the serializer throws, with response and body in it; the error of a challenge handler that gave up.
  public func upload<Serializer: ResponseSerializer>(
    for request: Request, from data: Data, serializer: Serializer, progress: TaskProgressHandler? = nil
  ) async throws -> (Serializer.Output, Response) {
    try await uploaded(serializer) {
      managed(.upload, request, serializer, progress, nil, $0).manage(
        session.unlistedUploadTask(with: request, body: .data(data)), in: self)
    }
  }

  /// Sends a file, and makes a value of the response; see `upload(for:from:)`. A file that cannot be read is an error, and so is a URL that is
  /// no file's.
  public func upload<Serializer: ResponseSerializer>(
    for request: Request, fromFile file: URL, serializer: Serializer, progress: TaskProgressHandler? = nil
  ) async throws -> (Serializer.Output, Response) {
    try await uploaded(serializer) {
      managed(.upload, request, serializer, progress, nil, $0).manage(
        session.unlistedUploadTask(with: request, body: .file(path: Self.path(of: file))), in: self)
    }
  }

  /// Sends the body of a request, which may be a stream or a form, and makes a value of the response; see `upload(for:from:)`. Without a body,
  /// `taskNeedNewBodyStream` is asked.
  public func upload<Serializer: ResponseSerializer>(
    streamed request: Request, serializer: Serializer, progress: TaskProgressHandler? = nil
  ) async throws -> (Serializer.Output, Response) {
    try await uploaded(serializer) { streamedTask(request, serializer, progress, $0) }
  }

  private func uploaded<Serializer: ResponseSerializer>(
    _ serializer: Serializer, _ make: (ManagedTask.Handler) -> UploadTask
  ) async throws -> (Serializer.Output, Response) {
    let output = Locked<Serializer.Output?>(nil)
    let cancellation = CancellationRelay<UploadTask> { $0.cancel() }
    let response = try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let task = make(
          .awaitedUpload { response, data in
            let value = try serializer.serialize(response, data: data)
            output.withLock { $0 = value }
            return value
          } end: {
            continuation.resume(with: $0)
          })
        cancellation.attach(task)
        begin(task)
      }
    } onCancel: {
      cancellation.cancel()
    }
    guard let value = output.withLock({ $0 }) else { preconditionFailure("an upload succeeds with its value") }
    return (value, response)
  }
}
