internal import CLupineLinux
import Glibc

/// A value behind a pthread mutex, with a condition that threads can wait for.
///
/// pthread, not `Synchronization.Mutex`, because waiting needs a condition variable and ThreadSanitizer sees these calls.
@safe
final class Monitor<Value>: @unchecked Sendable {
  private var value: Value
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  init(_ value: sending Value) {
    self.value = value
    unsafe mutex = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe condition = .allocate(capacity: 1)
    unsafe condition.initialize(to: pthread_cond_t())
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    let codes = unsafe (pthread_mutex_init(mutex, nil), pthread_cond_init(condition, &attributes))
    precondition(codes == (0, 0), "pthread_mutex_init or pthread_cond_init failed: \(codes)")
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// Runs `body` with exclusive access, then wakes everybody who waits. Never call out or wait in it.
  func withLock<Result, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer {
      unsafe pthread_cond_broadcast(condition)
      unsafe pthread_mutex_unlock(mutex)
    }
    return try body(&value)
  }

  /// Waits until `probe` gives a value, and returns it; nil when `seconds` passed without one. Woken by every `withLock`.
  func wait<Result>(seconds: Double, until probe: (inout Value) -> Result?) -> Result? {
    let deadline = MonotonicClock.instant(inSeconds: seconds)
    var limit = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while true {
      if let result = probe(&value) { return result }
      if unsafe pthread_cond_timedwait(condition, mutex, &limit) == ETIMEDOUT { return probe(&value) }
    }
  }
}

/// The system's monotonic clock.
enum MonotonicClock {
  /// Nanoseconds since an arbitrary origin.
  static var now: UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// So many seconds from now: at once for less than none, and after thirty years for any number above that, infinity included.
  static func instant(inSeconds seconds: Double) -> UInt64 { now + UInt64(max(0, min(seconds, 1e9)) * 1e9) }
}
