internal import FoundationEssentials
internal import LupineIO

/// Files that are read and written as a whole. Blocks.
package enum SmallFile {
  /// - Throws: `SessionError` with `.fileFailed`, also if the file is longer than `limit` bytes or no regular file.
  package static func read(_ path: String, limit: Int) throws(SessionError) -> [UInt8] {
    let size: Int64?
    do throws(IOError) {
      let file = try File.open(path)
      size = try file.size()
      // What is appended meanwhile is left out.
      if let size, size <= Int64(limit) { return try file.read(at: 0, count: Int(size)) }
    } catch {
      throw SessionError(.fileFailed, phase: .file, message: "cannot read \(path): \(error)", underlying: error)
    }
    throw SessionError(
      .fileFailed, phase: .file,
      message: size == nil ? "\(path) is no regular file" : "\(path) has more than \(limit) bytes")
  }

  /// Puts a file that only its owner may read in the place of whatever is at `path`: a reader sees the old one or the new one, never half of it.
  ///
  /// - Parameter limit: that of `read`: of what would not be read again nothing is written.
  package static func replace(_ path: String, with bytes: [UInt8], limit: Int) throws(SessionError) {
    guard bytes.count <= limit else {
      throw SessionError(
        .fileFailed, phase: .file,
        message: "cannot write \(path): it would have \(bytes.count) bytes, and \(limit) are read again")
    }
    // What is no regular file, such as a device, must not lose its name to one.
    if let file = try? File.open(path), (try? file.size()) == nil {
      throw SessionError(.fileFailed, phase: .file, message: "\(path) is no regular file")
    }
    let temporary = "\(path).\(UUID().uuidString).part"
    do throws(IOError) {
      let file = try File.create(temporary)
      do throws(IOError) {
        try file.write(bytes, at: 0)
        try file.synchronize()
        try File.rename(temporary, to: path)
      } catch {
        try? File.remove(temporary)
        throw error
      }
    } catch {
      throw SessionError(.fileFailed, phase: .file, message: "cannot write \(path): \(error)", underlying: error)
    }
  }
}
