internal import FoundationEssentials
internal import LupineBase
internal import LupineEngine
internal import LupineIO

/// Where a download goes, and what to do with what is there.
public struct DownloadDestination: Sendable, Hashable {
  /// The path of the file; nil: a new file in the temporary directory.
  public var path: String?
  /// Replace a file that is there, at the moment when the download is complete. Default false: `.fileFailed`.
  public var overwrites = false

  /// A new file in the temporary directory.
  public static let temporary = DownloadDestination(path: nil)

  /// A path.
  public init(path: String?, overwrites: Bool = false) {
    self.path = path
    self.overwrites = overwrites
  }
}

extension Session {
  /// Fetches a request into a file.
  ///
  /// The body is written to a new file beside the destination (mode 0600, never through a link) that takes the destination's name when
  /// the body is complete; a failure leaves nothing behind. Only a 2xx status makes a file: any other response fails with
  /// `.badResponse`, the response in the error.
  ///
  /// - Parameter progress: told, on a thread of the engine, how many bytes have arrived.
  /// - Returns: the path of the file, and the response.
  /// - Throws: `SessionError`; `.fileFailed` when the file cannot be written.
  public func download(
    for request: Request, to destination: DownloadDestination = .temporary,
    progress: (@Sendable (_ received: Int64, _ expected: Int64?) -> Void)? = nil
  ) async throws -> (path: String, response: Response) {
    try checkValid(request)
    let (file, temporary) = try DownloadFile.create(for: destination)
    do {
      let response = try await receive(request, into: file, at: temporary, progress: progress)
      return (try DownloadFile.move(temporary, to: destination), response)
    } catch {
      DownloadFile.remove(temporary)
      throw error
    }
  }

  private func receive(
    _ request: Request, into file: File, at path: String, progress: (@Sendable (Int64, Int64?) -> Void)?
  ) async throws -> Response {
    let threads = try DownloadFile.threads()
    let cancellation = CancellationRelay()
    let expected = Locked<Int64?>(nil)
    var report: (@Sendable (Int64) -> Void)?
    if let progress { report = { received in progress(received, expected.withLock { $0 }) } }
    let onBody = report
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Response, any Error>) in
        let consumer = FileConsumer(
          file, path: path, offset: 0, threads: threads,
          onHead: { response in
            expected.withLock { $0 = response.expectedContentLength }
            return (200..<300).contains(response.statusCode) ? nil : DownloadFile.statusError(response)
          },
          progress: onBody,
          completion: { result in continuation.resume(with: result.mapError { $0 as any Error }) })
        let run = TaskRun(request, session: self, consumer: consumer)
        cancellation.attach(run)
        run.start()
      }
    } onCancel: {
      cancellation.cancel()
    }
  }
}

/// The files of downloads: made, moved and removed here only.
enum DownloadFile {
  static func threads() throws(SessionError) -> FileThreads {
    do throws(IOError) {
      return try Engine.processFiles.get()
    } catch {
      throw SessionError(.system, phase: .file, message: "no thread for files: \(error)", underlying: error)
    }
  }

  /// Makes an empty file beside the destination, under a name that nobody can guess.
  static func create(for destination: DownloadDestination) throws(SessionError) -> (File, path: String) {
    let directory = destination.path.map { directoryName($0) } ?? FileManager.default.temporaryDirectory.path
    if let path = destination.path, !destination.overwrites, FileManager.default.fileExists(atPath: path) {
      throw SessionError(
        .fileFailed, phase: .file, message: "\(path) exists; remove it, or set DownloadDestination.overwrites")
    }
    let path = "\(directory)/.lupine-\(UUID().uuidString).part"
    do throws(IOError) {
      return (try File.create(path), path)
    } catch {
      throw SessionError(
        .fileFailed, phase: .file, message: "cannot create a file in \(directory): \(error)", underlying: error)
    }
  }

  static func move(_ temporary: String, to destination: DownloadDestination) throws(SessionError) -> String {
    let path = destination.path ?? temporary.dropLast(".part".count) + ".download"
    if !destination.overwrites, FileManager.default.fileExists(atPath: path) {
      throw SessionError(
        .fileFailed, phase: .file,
        message: "\(path) has come into being meanwhile; remove it, or set DownloadDestination.overwrites")
    }
    do throws(IOError) {
      try File.rename(temporary, to: path)
      return path
    } catch {
      throw SessionError(
        .fileFailed, phase: .file, message: "cannot move the download to \(path): \(error)", underlying: error)
    }
  }

  static func remove(_ path: String) {
    // It may be gone already; there is nobody to tell.
    try? File.remove(path)
  }

  static func statusError(_ response: Response) -> SessionError {
    SessionError(
      .badResponse, phase: .receive, message: "status \(response.statusCode) makes no file",
      failingURL: response.urlString,
      requestBytesSent: true, response: response)
  }

  private static func directoryName(_ path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }
}
