internal import CLupineLinux
internal import Synchronization

/// A pipe by which bytes of a body go from a socket into a file without passing through the memory of this process (splice(2)): a loop fills it, a file
/// thread empties it.
///
/// Invariants: it is filled while it is empty only, so that its room is not what a call waits for; whoever fills it and whoever empties it take turns,
/// each seen by the other by `isEmpty`; one that a call was refused for never calls itself empty again.
package final class BodyPipe: Sendable {
  /// Bytes that it keeps at most: what a process without privileges may have (`/proc/sys/fs/pipe-max-size`). A network's segments, which have their
  /// pages each, fill it with fewer.
  package static let capacity = 1 << 20
  /// How many there are in a process at most: a user has 64 MiB for the pipes of all processes, and small ones only beyond that
  /// (`/proc/sys/fs/pipe-user-pages-soft`).
  package static let maximumCount = 8
  private static let count = Atomic<Int>(0)

  private let source: Descriptor
  private let target: Descriptor
  private let waiting = Atomic<Int>(0)

  private init(_ source: consuming Descriptor, _ target: consuming Descriptor) {
    self.source = source
    self.target = target
  }

  deinit { Self.count.subtract(1, ordering: .relaxed) }

  /// Makes one; nil if there are too many, or as large a one is not to be had.
  package static func make() -> BodyPipe? {
    if count.add(1, ordering: .relaxed).oldValue < maximumCount,
      let pipe = try? take(SystemCalls.makePipe(capacity: capacity))
    {
      return pipe
    }
    count.subtract(1, ordering: .relaxed)
    return nil
  }

  private static func take(_ ends: (source: Int32, target: Int32)) throws(IOError) -> BodyPipe {
    let source = Descriptor(adopting: ends.source)
    let target = Descriptor(adopting: ends.target)
    return BodyPipe(try source.aboveStandardStreams(.pipe), try target.aboveStandardStreams(.pipe))
  }

  /// Its descriptors. For tests.
  var numbers: [Int32] { [source.number, target.number] }

  /// Whether the kernel, a filter or the kind of socket has refused to fill it: then it is of no use.
  package var isRefused: Bool { waiting.load(ordering: .acquiring) == .max }

  /// Whether it may be filled.
  package var isEmpty: Bool { waiting.load(ordering: .acquiring) == 0 }

  /// Moves at most `count` bytes, which are more than none, from a socket into it. It must be empty.
  ///
  /// - Returns: how many; 0: none wait, or TCP's urgent data does, which is read otherwise. Nil if the socket must be read as others are: for its end, behind which
  ///   urgent data may wait as well, and where the kernel does not do this at all.
  /// - Throws: what a read of the socket throws.
  package func fill(from socket: borrowing Descriptor, atMost count: Int) throws(IOError) -> Int? {
    precondition(isEmpty && count > 0, "bytes would come behind others that wait")
    do throws(IOError) {
      let moved = try SystemCalls.splice(socket, into: target, count: min(count, Self.capacity))
      guard let moved else { return 0 }
      waiting.store(moved, ordering: .releasing)
      return moved == 0 ? nil : moved
    } catch {
      // What a read tells as the end, once an error has been told.
      if error.code == ENOTCONN { return nil }
      guard error.refusesSplice else { throw error }
      waiting.store(.max, ordering: .releasing)
      return nil
    }
  }

  /// Writes `count` bytes of those that wait, which are that many, to a place in a file. Blocks on the disk: on file threads only.
  ///
  /// - Throws: what a write throws. What waits is lost then, and the pipe is not empty again.
  package func empty(_ count: Int, into file: File, at offset: Int64) throws(IOError) {
    var written = 0
    do throws(IOError) {
      while written < count {
        let moved = try SystemCalls.splice(
          source, into: file.descriptor, at: offset + Int64(written), count: count - written)
        written += try Self.counted(moved)
      }
    } catch {
      guard error.refusesSplice else { throw error }
      try copy(count - written, into: file, at: offset + Int64(written))
    }
    waiting.subtract(count, ordering: .releasing)
  }

  /// As `empty`, for a file that does not take bytes out of a pipe.
  private func copy(_ count: Int, into file: File, at offset: Int64) throws(IOError) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: min(count, 1 << 16), alignment: 16)
    defer { unsafe buffer.deallocate() }
    var copied = 0
    while copied < count {
      let room = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(count - copied))
      let got = try Self.counted(try unsafe SystemCalls.read(source, room))
      let bytes = unsafe UnsafeRawBufferPointer(rebasing: room[..<got])
      try unsafe SystemCalls.writeAll(file.descriptor, bytes, at: offset + Int64(copied))
      copied += got
    }
  }

  /// What was counted on the way in must come out again.
  private static func counted(_ count: Int?) throws(IOError) -> Int {
    guard let count, count > 0 else { throw .other(.splice, code: EIO) }
    return count
  }
}

extension IOError {
  /// Whether the kernel, a filter of system calls or the kind of file has no such call.
  fileprivate var refusesSplice: Bool {
    switch code {
    case EINVAL, ENOSYS, EOPNOTSUPP, EPERM: true
    default: false
    }
  }
}
