internal import FoundationEssentials
internal import LupineIO

/// Where a download goes, and what to do with what is there.
public struct DownloadDestination: Sendable, Hashable {
  /// The path of the file; nil: a new file in the session's temporary folder, which is the caller's to remove.
  public var path: String?
  /// Replace a file that is there, at the moment when the download is complete. Default false: `.fileFailed`. A directory, a device, a FIFO or a socket
  /// is never replaced.
  public var overwrites = false

  /// A new file in the session's temporary folder.
  public static let temporary = DownloadDestination(path: nil)

  /// A path.
  public init(path: String?, overwrites: Bool = false) {
    self.path = path
    self.overwrites = overwrites
  }

  /// Finds what can be known to go wrong before anything is sent. Blocks.
  func check() throws(SessionError) {
    guard let path else { return }
    guard !path.isEmpty, !path.utf8.contains(0) else { throw SessionError(.badPath, "write", path: path) }
    if !overwrites, FileManager.default.fileExists(atPath: path) {
      throw SessionError(.alreadyExists, "write (set DownloadDestination.overwrites to replace it)", path: path)
    }
    do throws(IOError) {
      try File.checkReplaceable(path)
    } catch {
      throw SessionError(error, "replace what is no regular file, such as a directory or a device,", path: path)
    }
    let directory = Self.directory(of: path)
    do throws(IOError) {
      _ = try Directory.open(directory)
    } catch {
      // A directory may be written but not listed.
      if case .permissionDenied = error {} else { throw SessionError(error, "write into", path: directory) }
    }
    guard FileManager.default.isWritableFile(atPath: directory) else {
      throw SessionError(.permissionDenied(code: 13), "write into", path: directory)
    }
  }

  static func directory(of path: String) -> String {
    guard let slash = slash(path) else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// The last component of a path.
  static func name(of path: String) -> String {
    slash(path).map { String(path[path.utf8.index(after: $0)...]) } ?? path
  }

  /// By bytes, as the system reads a path: a mark at the beginning of the name makes one character with the slash before it.
  private static func slash(_ path: String) -> String.Index? { path.utf8.lastIndex(of: UInt8(ascii: "/")) }
}
