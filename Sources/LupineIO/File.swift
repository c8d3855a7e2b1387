internal import CLupineLinux

/// An open file. Every method blocks, but `readAtOnce`: call them on `FileThreads` only. Closed when the last reference goes.
package final class File: Sendable {
  /// For `SystemCalls.sendFile`.
  package let descriptor: Descriptor

  init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Makes a new file that only its owner may read and write; throws `alreadyExists` rather than follow a link or open what is there.
  package static func create(_ path: String) throws(IOError) -> File {
    File(try SystemCalls.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600))
  }

  /// Opens a file that exists for reading; links are followed. Never waits: a FIFO without a writer opens at once, and has no size.
  package static func open(_ path: String) throws(IOError) -> File {
    File(try SystemCalls.open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK))
  }

  /// Opens a file of ours that exists, to go on writing it; links are not followed.
  package static func reopen(_ path: String) throws(IOError) -> File {
    File(try SystemCalls.open(path, O_RDWR | O_NOFOLLOW | O_NOCTTY))
  }

  /// - Throws: `.alreadyExists`: at `path` is a device, a FIFO or a socket, or a link to one, which no file may replace, or a directory, which none
  ///   can.
  package static func checkReplaceable(_ path: String) throws(IOError) {
    try SystemCalls.refuseSpecial(path)
    try SystemCalls.refuseDirectory(path)
  }

  /// The size in bytes; nil for what is no regular file, and for one that calls itself empty and is not, as those of `/proc`.
  package func size() throws(IOError) -> Int64? {
    let status = try SystemCalls.status(descriptor)
    guard status.isRegular else { return nil }
    // What cannot be read, as it was opened to be written, has no other size to tell.
    if status.size == 0, let first = try? read(at: 0, count: 1), !first.isEmpty { return nil }
    return status.size
  }

  /// Reads at most `count` bytes at `offset`; fewer only at the end, none past it.
  package func read(at offset: Int64, count: Int) throws(IOError) -> [UInt8] {
    var failure: IOError?
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      do throws(IOError) {
        while initialized < count {
          let rest = unsafe UnsafeMutableRawBufferPointer(
            rebasing: UnsafeMutableRawBufferPointer(buffer)[initialized..<count])
          let got = try unsafe SystemCalls.read(descriptor, rest, at: offset + Int64(initialized))
          if got == 0 { break }
          initialized += got
        }
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    return bytes
  }

  /// The first `count` bytes, in one call; nil unless all are there without waiting.
  func readAtOnce(count: Int) throws(IOError) -> [UInt8]? {
    var failure: IOError?
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      do throws(IOError) {
        initialized = try unsafe SystemCalls.readAtOnce(descriptor, UnsafeMutableRawBufferPointer(buffer)) ?? 0
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    return bytes.count == count ? bytes : nil
  }

  /// Writes all of `bytes` at `offset`.
  package func write(_ bytes: [UInt8], at offset: Int64) throws(IOError) { try write(bytes.span, at: offset) }

  /// Writes all of `bytes` at `offset`.
  package func write(_ bytes: Span<UInt8>, at offset: Int64) throws(IOError) {
    let failure: IOError? = unsafe bytes.withUnsafeBytes { buffer in
      do throws(IOError) {
        try unsafe SystemCalls.writeAll(descriptor, buffer, at: offset)
        return nil
      } catch {
        return error
      }
    }
    if let failure { throw failure }
  }

  /// Writes the first `count` bytes, or all, to the front of another file.
  package func copy(to other: File, count: Int64 = .max) throws(IOError) {
    var offset: Int64 = 0
    while offset < count {
      let bytes = try read(at: offset, count: Int(min(count - offset, 1 << 20)))
      if bytes.isEmpty { return }
      try other.write(bytes, at: offset)
      offset += Int64(bytes.count)
    }
  }

  package func truncate(to size: Int64) throws(IOError) { try SystemCalls.truncate(descriptor, to: size) }

  /// Waits until the disk has everything.
  package func synchronize() throws(IOError) { try SystemCalls.synchronize(descriptor) }

  /// Reports what the system otherwise says only when a file is closed: no room left, on file systems over the network.
  package func flush() throws(IOError) { try SystemCalls.flush(descriptor) }

  /// Lets others lock the file, although it stays open here; see `Directory`.
  package func unlock() { SystemCalls.unlock(descriptor) }

  package static func rename(_ from: String, to: String) throws(IOError) { try SystemCalls.rename(from, to: to) }

  package static func remove(_ path: String) throws(IOError) { try SystemCalls.unlink(path) }
}
