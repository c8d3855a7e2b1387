internal import CLupineLinux

/// A thread of this package: named, and deaf to every signal but those of its own faults, so that the process's handlers never run on it and a SIGPIPE
/// raised by `sendfile` stays pending instead of killing the process.
///
/// End it with exactly one `join()` or `detach()`.
struct Thread: Sendable {
  private let handle: UInt

  /// Raised by the thread that does wrong. Swift's pool makes threads from ours, which inherit the mask: a fault in a program's own task would end the
  /// process past every handler, its crash reporter's and Swift's backtracer.
  private static let faults = [SIGILL, SIGTRAP, SIGFPE, SIGBUS, SIGSEGV, SIGSYS]

  /// Starts a thread. The process's signal dispositions stay as they are, and so does the caller's mask.
  static func start(name: String, _ body: @escaping @Sendable () -> Void) throws(IOError) -> Thread {
    let box = unsafe Unmanaged.passRetained(Body(name: name, run: body))
    var everything = sigset_t()
    var previous = sigset_t()
    unsafe sigfillset(&everything)
    for fault in faults { unsafe sigdelset(&everything, fault) }
    // The new thread inherits the mask, so that there is no instant in which it could take a signal.
    unsafe pthread_sigmask(SIG_SETMASK, &everything, &previous)
    var thread = pthread_t()
    let code = unsafe pthread_create(&thread, nil, { unsafe threadMain($0) }, box.toOpaque())
    unsafe pthread_sigmask(SIG_SETMASK, &previous, nil)
    guard code == 0 else {
      unsafe box.release()
      throw IOError(.threadCreate, code: code)
    }
    return Thread(handle: UInt(thread))
  }

  /// Waits until the thread has ended and is gone.
  func join() {
    precondition(handle != Thread.current, "a thread cannot wait for itself")
    let code = pthread_join(pthread_t(handle), nil)
    precondition(code == 0, "pthread_join: \(code)")
  }

  /// Lets the thread go when it ends.
  func detach() {
    let code = pthread_detach(pthread_t(handle))
    precondition(code == 0, "pthread_detach: \(code)")
  }

  var isCurrent: Bool { handle == Thread.current }

  /// What tells the running thread from every other.
  @inline(__always)
  static var current: UInt { UInt(pthread_self()) }

  final class Body: Sendable {
    let name: String
    let run: @Sendable () -> Void

    init(name: String, run: @escaping @Sendable () -> Void) {
      self.name = name
      self.run = run
    }
  }
}

private func threadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument = unsafe argument else { return nil }
  let body = unsafe Unmanaged<Thread.Body>.fromOpaque(argument).takeRetainedValue()
  // The kernel takes 15 bytes.
  var name = body.name
  while name.utf8.count > 15 { name.removeLast() }
  unsafe pthread_setname_np(pthread_self(), name)
  body.run()
  return nil
}
