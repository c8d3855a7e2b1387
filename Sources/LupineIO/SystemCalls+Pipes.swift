internal import CLupineLinux

/// Pipes, by which bytes go from one descriptor to another without a copy in this process.
extension SystemCalls {
  /// A pipe that keeps `capacity` bytes or more and never waits: the number of the end that is read, and of the one that is written.
  static func makePipe(capacity: Int) throws(IOError) -> (source: Int32, target: Int32) {
    var ends: (Int32, Int32) = (-1, -1)
    _ = try value(.pipe, invalidArgumentTraps: true) {
      unsafe withUnsafeMutablePointer(to: &ends) { pointer in
        unsafe pointer.withMemoryRebound(to: Int32.self, capacity: 2) { unsafe Int(pipe2($0, O_CLOEXEC | O_NONBLOCK)) }
      }
    }
    do throws(IOError) {
      _ = try value(.pipe, invalidArgumentTraps: false) {
        Int(clupine_set_pipe_size(ends.1, Int32(clamping: capacity)))
      }
    } catch {
      _ = close(ends.0)
      _ = close(ends.1)
      throw error
    }
    return (ends.0, ends.1)
  }

  /// Moves at most `count` bytes from a socket into a pipe; nil: the socket has none now, or the pipe no room. 0: the peer has closed its side. TCP's urgent
  /// data is not passed: nil, or 0 if the end has come, although more waits behind it.
  static func splice(
    _ socket: borrowing Descriptor, into pipe: borrowing Descriptor, count: Int
  ) throws(IOError) -> Int? {
    let (input, output) = (socket.number, pipe.number)
    return try value(.splice, invalidArgumentTraps: false) { clupine_splice(input, output, nil, count) }
  }

  /// Moves at most `count` bytes, and no more than `sliceSize`, out of a pipe to a place in a file; nil: the pipe is empty. Blocks on the disk.
  static func splice(
    _ pipe: borrowing Descriptor, into file: borrowing Descriptor, at offset: Int64, count: Int
  ) throws(IOError) -> Int? {
    let (input, output) = (pipe.number, file.number)
    return try value(.splice, invalidArgumentTraps: false) {
      var place = offset
      return unsafe clupine_splice(input, output, &place, min(count, sliceSize))
    }
  }

  /// Bytes that wait in a socket, before TCP's urgent data; nil: the kernel or a filter of system calls does not say.
  package static func waitingBytes(in socket: borrowing Descriptor) -> Int? {
    let count = Int(clupine_waiting_bytes(socket.number))
    return count < 0 ? nil : count
  }

  /// Reads out of a pipe; nil: it is empty.
  static func read(_ pipe: borrowing Descriptor, _ buffer: UnsafeMutableRawBufferPointer) throws(IOError) -> Int? {
    let number = pipe.number
    return try value(.read, invalidArgumentTraps: true) {
      unsafe CLupineLinux.read(number, buffer.baseAddress, buffer.count)
    }
  }
}
