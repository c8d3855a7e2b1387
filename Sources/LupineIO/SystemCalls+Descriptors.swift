internal import CLupineLinux

/// Numbers of descriptors: how they are taken over, and given back.
extension SystemCalls {
  /// Takes over the descriptor that `body` makes.
  @inline(__always)
  static func descriptor(_ call: SystemCall, _ body: () -> Int32) throws(IOError) -> Descriptor {
    let invalidArgumentTraps = call != .open
    guard let number = try value(call, invalidArgumentTraps: invalidArgumentTraps, { Int(body()) }) else {
      throw IOError(call, code: EAGAIN)
    }
    return try Descriptor(adopting: Int32(number)).aboveStandardStreams(call)
  }

  /// Closes a number; EINTR counts as success, because Linux has closed it.
  static func close(_ number: Int32) -> IOError? {
    guard CLupineLinux.close(number) != 0 else { return nil }
    let code = clupine_errno()
    return code == EINTR ? nil : failure(.close, code, invalidArgumentTraps: true)
  }

  /// Asks for errors of writing that show only when a descriptor is closed, without giving up this one.
  static func flush(_ file: borrowing Descriptor) throws(IOError) {
    let number = file.number
    let copy = clupine_duplicate(number)
    if copy >= 0 { return try Descriptor(adopting: copy).close() }
    let code = clupine_errno()
    // Where no descriptor is to be had (EINVAL: where none is allowed) the disk is asked, which takes longer and says no less.
    guard [EMFILE, EINVAL].contains(code) else { throw failure(.open, code, invalidArgumentTraps: false) }
    do throws(IOError) {
      try synchronize(file)
    } catch  where error.code == EINVAL {
      // A pipe or a device, which keeps nothing back.
    }
  }

  /// Whether a descriptor is to be had.
  static var hasDescriptors: Bool {
    do throws(IOError) {
      _ = try eventDescriptor(semaphore: false)
      return true
    } catch {
      if case .descriptorLimit = error { return false }
      return true
    }
  }
}

extension Descriptor {
  /// The same with a number above those of the standard streams. A process that has closed them may print all the same: what it prints must be neither sent nor
  /// saved, and what it opens in their place must replace nothing.
  ///
  /// - Parameter call: what made it, for the error.
  @inline(__always)
  consuming func aboveStandardStreams(_ call: SystemCall) throws(IOError) -> Descriptor {
    guard number <= STDERR_FILENO else { return self }
    return try lifted(call)
  }

  @inline(never)
  private consuming func lifted(_ call: SystemCall) throws(IOError) -> Descriptor {
    let number = number
    let copy = clupine_duplicate(number)
    guard copy >= 0 else {
      let code = clupine_errno()
      // No descriptor above those is allowed.
      throw IOError(call, code: code == EINVAL ? EMFILE : code)
    }
    return Descriptor(adopting: copy)
  }
}
