internal import LupineIO

/// What the file system refused: the `underlying` error of a download that failed with `.fileFailed`.
public struct FileFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Why.
  public enum Reason: Hashable, Sendable {
    /// No room on the disk, no quota left, or a file larger than is allowed.
    case storageFull
    /// The directory or file may not be written.
    case permissionDenied
    /// A directory of the path does not exist.
    case notFound
    /// There is a file already, and `DownloadDestination.overwrites` is false.
    case alreadyExists
    /// The folder for unfinished downloads is a link, somebody else's, or open to others.
    case untrusted
    /// Anything else; see `code`.
    case other
  }

  /// Why.
  public var reason: Reason
  /// The file or directory.
  public var path: String
  /// The errno of the system call; 0 if none was involved.
  public var code: Int32
  /// One sentence for people.
  public var description: String

  init(_ error: IOError, _ action: String, path: String) {
    reason =
      switch error {
      case .storageFull: .storageFull
      case .permissionDenied: .permissionDenied
      case .notFound: .notFound
      case .alreadyExists: .alreadyExists
      case .untrusted, .symbolicLink: .untrusted
      default: .other
      }
    self.path = path
    code = error.code
    description = "cannot \(action) \(path): \(error)"
  }
}

extension SessionError {
  /// A file of a download failed.
  init(_ failure: FileFailure) {
    self.init(.fileFailed, phase: .file, message: failure.description, underlying: failure)
  }

  init(_ error: IOError, _ action: String, path: String) {
    self.init(FileFailure(error, action, path: path))
  }
}
