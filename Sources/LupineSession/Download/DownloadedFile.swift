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

  /// Gives it its place, in one step; from one file system to another it is copied beside it first. After an error it is gone.
  ///
  /// - Returns: the path.
  func move(to destination: DownloadDestination) throws(SessionError) -> String {
    let path = destination.path ?? String(partial.path.dropLast(".part".count)) + ".download"
    do throws(IOError) {
      do throws(IOError) {
        try partial.directory.rename(partial.name, to: path, overwriting: destination.overwrites)
      } catch  where error == .crossDevice {
        try copy(to: path, overwriting: destination.overwrites)
        remove()
      }
      return path
    } catch {
      remove()
      throw SessionError(error, "move the download to", path: path)
    }
  }

  private func copy(to path: String, overwriting: Bool) throws(IOError) {
    let directory = try Directory.open(DownloadDestination.directory(of: path))
    let name = ".lupine-" + partial.name
    let copy = try directory.create(name)
    do throws(IOError) {
      try partial.file.copy(to: copy)
      try copy.synchronize()
      try directory.rename(name, to: path, overwriting: overwriting)
    } catch {
      try? directory.remove(name)
      throw error
    }
  }
}
