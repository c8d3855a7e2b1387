import Glibc

/// A pipe that is full stands for a file on a disk that hangs: whoever writes to it waits, until somebody reads or the pipe is gone.
package final class FullPipe: Sendable {
  /// The system did not give one.
  package struct NotMade: Error {
    package var code: Int32
  }

  private static let page = 4_096

  package let path: String
  private let folder: String
  private let descriptor: Int32

  /// Makes a pipe in a folder of its own; both are removed with the last reference.
  package init() throws {
    var template = Array("/tmp/lupine-pipe-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw NotMade(code: errno) }
    let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let path = folder + "/pipe"
    guard unsafe mkfifo(path, 0o600) == 0 else { throw NotMade(code: errno) }
    let opened = unsafe open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
    guard opened >= 0 else { throw NotMade(code: errno) }
    self.folder = folder
    self.path = path
    descriptor = opened
    fill()
  }

  deinit {
    _ = Glibc.close(descriptor)
    unsafe unlink(path)
    unsafe rmdir(folder)
  }

  /// Takes the room that reading has made.
  package func fill() {
    // Whole pages, and what is left of one that has some of a line: there is no room for a line either.
    for count in [Self.page, 1] {
      let piece = [UInt8](repeating: UInt8(ascii: "\n"), count: count)
      while unsafe Glibc.write(descriptor, piece, count) == count {}
    }
  }

  /// Reads what there is, a page at most, which makes room for as much.
  package func read() -> String {
    var buffer = [UInt8](repeating: 0, count: Self.page)
    let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
    return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : ""
  }
}
