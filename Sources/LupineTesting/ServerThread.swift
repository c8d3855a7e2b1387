internal import CLupineLinux
import Glibc

/// A thread of the module's own, with every signal blocked, so that a write to a dead peer (`SSL_write` has no MSG_NOSIGNAL)
/// neither kills the process nor runs somebody's handler.
struct ServerThread: Sendable {
  private let identifier: pthread_t

  /// Starts a thread that runs `body` once. It must be joined.
  init(_ body: @escaping @Sendable () -> Void) throws(LoopbackError) {
    var everything = sigset_t()
    var before = sigset_t()
    unsafe sigfillset(&everything)
    unsafe pthread_sigmask(SIG_SETMASK, &everything, &before)  // a new thread inherits its creator's mask
    defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }

    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    defer { unsafe pthread_attr_destroy(&attributes) }
    unsafe pthread_attr_setstacksize(&attributes, 512 * 1024)

    let box = unsafe Unmanaged.passRetained(ThreadBody(body))
    var thread = pthread_t()
    let code = unsafe pthread_create(&thread, &attributes, threadMain, box.toOpaque())
    guard code == 0 else {
      unsafe box.release()
      throw .system(call: "pthread_create", code: code)
    }
    unsafe pthread_setname_np(thread, "lupine-testing")
    identifier = thread
  }

  /// Waits for the thread's end; called from the thread itself, it detaches it instead.
  func join() {
    if pthread_equal(identifier, pthread_self()) != 0 {
      pthread_detach(identifier)
    } else {
      pthread_join(identifier, nil)
    }
  }
}

private final class ThreadBody {
  let run: @Sendable () -> Void
  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

private func threadMain(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  if let context = unsafe context {
    unsafe Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
  }
  return nil
}
