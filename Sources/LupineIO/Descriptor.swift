/// Owns one file descriptor and closes it exactly once.
///
/// Every descriptor of this package is close-on-exec. Letting a value go closes it; `close()` does so and reports the error.
package struct Descriptor: ~Copyable, Sendable {
  /// The number. Never close it, never keep it past the life of this value.
  package let number: Int32

  /// Takes over `number`, which nobody else may close from now on.
  package init(adopting number: Int32) {
    precondition(number >= 0, "not a descriptor: \(number)")
    self.number = number
  }

  deinit {
    // An error of a close that nobody asks about: only files have one, and those are closed by `close()`.
    _ = SystemCalls.close(number)
  }

  /// Closes the descriptor and reports what the system said: a full disk may show only here.
  package consuming func close() throws(IOError) {
    let number = number
    discard self
    if let error = SystemCalls.close(number) { throw error }
  }

  /// Gives the number away; the caller closes it.
  package consuming func release() -> Int32 {
    let number = number
    discard self
    return number
  }
}

/// What a nonblocking read gave.
package enum ReadResult: Equatable, Sendable {
  /// So many bytes, at least one.
  case bytes(Int)
  /// Nothing now; readiness will be reported.
  case wouldBlock
  /// The peer has closed its side, or the file has ended.
  case end
}

/// What a nonblocking write did.
package enum WriteResult: Equatable, Sendable {
  /// So many bytes were taken, possibly fewer than given, possibly 0 of 0.
  case bytes(Int)
  /// No room now; readiness will be reported.
  case wouldBlock
}
