public import FoundationEssentials

/// The same for who has a Foundation URL, or nothing but a URL, as `URLSession` has it.
///
/// All throw `SessionError` with `.badURL` for a URL that cannot be fetched.
extension Session {
  // MARK: async

  /// Fetches a URL and collects its body in memory; see `data(for:)`.
  public func data(from url: URL, delegate: (any SessionTaskDelegate)? = nil) async throws -> (Data, Response) {
    try await data(for: Request(url), delegate: delegate)
  }

  /// Fetches a URL and returns as soon as its head is there; see `bytes(for:)`.
  public func bytes(
    from url: URL, delegate: (any SessionTaskDelegate)? = nil
  ) async throws -> (ResponseBytes, Response) {
    try await bytes(for: Request(url), delegate: delegate)
  }

  /// Fetches a URL and returns as soon as its head is there; see `bytes(for:)`.
  public func bytes(
    from url: String, delegate: (any SessionTaskDelegate)? = nil
  ) async throws -> (ResponseBytes, Response) {
    try await bytes(for: Request(url), delegate: delegate)
  }

  /// Fetches a URL into a file; see `download(for:to:progress:)`.
  public func download(
    from url: URL, to destination: DownloadDestination = .temporary, delegate: (any SessionTaskDelegate)? = nil,
    progress: (@Sendable (_ received: Int64, _ expected: Int64?) -> Void)? = nil
  ) async throws -> (path: String, response: Response) {
    try await download(for: Request(url), to: destination, delegate: delegate, progress: progress)
  }

  /// Fetches a URL into a file; see `download(for:to:progress:)`.
  public func download(
    from url: String, to destination: DownloadDestination = .temporary, delegate: (any SessionTaskDelegate)? = nil,
    progress: (@Sendable (_ received: Int64, _ expected: Int64?) -> Void)? = nil
  ) async throws -> (path: String, response: Response) {
    try await download(for: Request(url), to: destination, delegate: delegate, progress: progress)
  }

  // MARK: Tasks that begin with `resume()`

  /// Makes a data task whose response goes to the delegate; see `dataTask(with:)`.
  public func dataTask(with url: URL) throws(SessionError) -> DataTask {
    dataTask(with: try Request(url))
  }

  /// Makes a data task whose response goes to a completion handler, on the delegate queue.
  public func dataTask(
    with url: URL, completionHandler: @escaping DataTaskCompletion
  ) throws(SessionError) -> DataTask {
    dataTask(with: try Request(url), completionHandler: completionHandler)
  }

  /// Makes a task that fetches a URL into a temporary file, which goes to the delegate; see `downloadTask(with:)`.
  public func downloadTask(with url: URL) throws(SessionError) -> DownloadTask {
    downloadTask(with: try Request(url))
  }

  /// Makes a task that fetches a URL into a temporary file, which goes to a completion handler, on the delegate queue.
  public func downloadTask(
    with url: URL, completionHandler: @escaping DownloadTaskCompletion
  ) throws(SessionError) -> DownloadTask {
    downloadTask(with: try Request(url), completionHandler: completionHandler)
  }
}
