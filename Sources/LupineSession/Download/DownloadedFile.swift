internal import LupineIO

/// A complete download that waits for its place. Methods block: not on an engine's thread.
final class DownloadedFile: Sendable {
  /// The response that completed it; a 416 says that everything was there already.
  let response: Response
  private let partial: PartialFile

  init(_ partial: PartialFile, _ response: Response) {
    self.partial = partial
    self.response = response
  }

  /// Where it is until it is moved. A delegate may move it away by itself; `remove` then finds nothing.
  var path: String { partial.path }

  /// Removes it.
  func remove() { partial.remove() }

  /// Where it is for the caller to remove. Resume data may name a file that ends as none of ours does.
  private static func completePath(of partial: String) -> String {
    let ending = ".part"
    return (partial.hasSuffix(ending) ? String(partial.dropLast(ending.count)) : partial) + ".download"
  }

  /// Gives it its place, in one step; from one file system to another it is copied beside it first. After an error it is gone.
  ///
  /// - Returns: the path.
  func move(to destination: DownloadDestination) throws(SessionError) -> String {
    let path = destination.path ?? Self.completePath(of: partial.path)
    do throws(IOError) {
      try FinishedFile.move(
        partial.name, partial.file, in: partial.directory, to: path, overwriting: destination.overwrites)
      return path
    } catch {
      remove()
      throw SessionError(error, "move the download to", path: path)
    }
  }
}

extension DownloadedFile {
  /// The path in its place, and the response.
  func moved(to destination: DownloadDestination) -> Result<(path: String, response: Response), SessionError> {
    do throws(SessionError) {
      return .success((try move(to: destination), response))
    } catch {
      return .failure(error)
    }
  }
}

/// Moves files that are complete.
package enum FinishedFile {
  /// Gives a finished download its place, in one step; from one file system to another it is copied beside it first. For a delegate that was shown
  /// the file, before it returns. Blocks for as long as the disk does; after an error the file is where it was.
  ///
  /// - Throws: `.fileFailed` with a `FileFailure`.
  package static func move(_ path: String, to destination: String, overwriting: Bool) throws(SessionError) {
    do throws(IOError) {
      let directory = try Directory.open(DownloadDestination.directory(of: path))
      try move(
        DownloadDestination.name(of: path), try File.open(path), in: directory, to: destination,
        overwriting: overwriting)
    } catch {
      throw SessionError(error, "move the download to", path: destination)
    }
  }

  static func move(
    _ name: String, _ file: File, in directory: Directory, to path: String, overwriting: Bool
  ) throws(IOError) {
    do throws(IOError) {
      try directory.rename(name, to: path, overwriting: overwriting)
    } catch  where error == .crossDevice {
      try copy(name, file, to: path, overwriting: overwriting)
      try? directory.remove(name)
    }
  }

  private static func copy(_ name: String, _ file: File, to path: String, overwriting: Bool) throws(IOError) {
    let directory = try Directory.open(DownloadDestination.directory(of: path))
    let name = ".lupine-" + name
    let copy = try directory.create(name)
    do throws(IOError) {
      try file.copy(to: copy)
      try copy.synchronize()
      try directory.rename(name, to: path, overwriting: overwriting)
    } catch {
      try? directory.remove(name)
      throw error
    }
  }
}
