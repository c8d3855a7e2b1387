internal import CLupineLinux
import Glibc

/// A gate that opens once, and stays open: a stalled response waits at it until the test lets it go on.
///
/// Thread-safe. It is an eventfd, so that a server thread can wait for the latch and for its peer's hang-up with one `poll`.
public final class Latch: Sendable {
  let descriptor: Int32
  private let released = Monitor(false)

  /// Makes a closed latch. Fails with `LoopbackError.system` when no descriptor is left.
  public init() throws(LoopbackError) {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    guard descriptor >= 0 else { throw .system(call: "eventfd", code: errno) }
  }

  deinit {
    close(descriptor)
  }

  /// Opens the latch for everybody who waits or will wait. Opening twice does nothing more.
  public func release() {
    released.withLock { isReleased in
      guard !isReleased else { return }
      isReleased = true
      var one: UInt64 = 1
      _ = unsafe write(descriptor, &one, 8)
    }
  }

  /// Whether `release()` was called.
  public var isReleased: Bool { released.withLock { $0 } }

  /// Waits until the latch opens, at most `seconds`; says whether it did. Blocks the calling thread.
  public func wait(seconds: Double = 10) -> Bool {
    released.wait(seconds: seconds) { $0 ? true : nil } ?? false
  }
}
