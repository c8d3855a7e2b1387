internal import CLupineLinux

/// Files that go into sockets.
extension SystemCalls {
  /// The most that one call moves, so that a fast disk and a fast peer do not keep everybody else waiting.
  package static let sliceSize = 512 * 1024

  /// Sends at most 512 KiB of a file through a socket without copying. Only on threads of this package: a peer that is gone raises SIGPIPE.
  ///
  /// - Returns: `end` if the file holds nothing at `offset` any more.
  package static func sendFile(
    _ socket: borrowing Descriptor, _ file: borrowing Descriptor, offset: Int64, count: Int
  ) throws(IOError) -> ReadResult {
    let (output, input) = (socket.number, file.number)
    var position = off_t(offset)
    do throws(IOError) {
      let sent = try value(.sendFile, invalidArgumentTraps: false) {
        unsafe sendfile(output, input, &position, min(count, sliceSize))
      }
      return sent.map { $0 == 0 && count > 0 ? .end : .bytes($0) } ?? .wouldBlock
    } catch  where [EINVAL, ENOSYS, EOPNOTSUPP, EPERM].contains(error.code) {
      // The file system, or a filter of system calls, knows no such thing.
      return try sendCopy(socket, file, offset: offset, count: min(count, sliceSize))
    }
  }

  /// The same by way of this process's memory. More may be read than the socket takes: fewer bytes than were asked for mean a full socket to the caller.
  @inline(never)
  private static func sendCopy(
    _ socket: borrowing Descriptor, _ file: borrowing Descriptor, offset: Int64, count: Int
  ) throws(IOError) -> ReadResult {
    guard count > 0 else { return .bytes(0) }
    var failure: IOError?
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, length in
      do throws(IOError) {
        length = try unsafe read(file, UnsafeMutableRawBufferPointer(buffer), at: offset)
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    guard !bytes.isEmpty else { return .end }
    return switch try send(socket, bytes.span) {
    case .bytes(let sent): .bytes(sent)
    case .wouldBlock: .wouldBlock
    }
  }
}
