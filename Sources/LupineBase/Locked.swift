#if LUPINE_THREAD_SANITIZER
internal import CLupineLinux
internal import Synchronization
#else
package import Synchronization
#endif

#if LUPINE_THREAD_SANITIZER
/// A value behind a lock, stored inline: for a property of a class. ThreadSanitizer on Linux does not see what `Mutex` orders, so this build
/// tells it. As large as `Mutex`: what is linked with this may have been compiled with the other (`.ci/check-sanitizer`).
package struct LockedStorage<Value>: ~Copyable, Sendable {
  private let mutex: Mutex<Value>

  package init(_ value: sending Value) { mutex = Mutex(value) }

  /// Runs `body` with exclusive access to the value. Keep it short: never call out, never wait.
  package borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    // The mutex does not move. Its own address, because looking for that of the value is an access to it, which the sanitizer sees.
    let address = unsafe withUnsafePointer(to: mutex) { unsafe UnsafeMutableRawPointer(mutating: $0) }
    unsafe clupine_thread_sanitizer_locks(address)
    defer { unsafe clupine_thread_sanitizer_unlocked(address) }
    return try mutex.withLock { value throws(Failure) in
      unsafe clupine_thread_sanitizer_locked(address)
      defer { unsafe clupine_thread_sanitizer_unlocks(address) }
      return try body(&value)
    }
  }
}
#else
/// A value behind a lock, stored inline: for a property of a class. Keep what runs under it short: never call out, never wait.
///
/// The standard library's own type, and no wrapper around it: a generic wrapper is not specialised across modules, and looks up type
/// metadata at every use (measured: 10,000 of 70,000 instructions of a request).
package typealias LockedStorage<Value> = Mutex<Value>
#endif

/// A value behind a lock, to be shared by reference: where closures hold it. A property of a class is better off with `LockedStorage`.
package final class Locked<Value>: Sendable {
  private let storage: LockedStorage<Value>

  package init(_ value: sending Value) {
    storage = LockedStorage(value)
  }

  /// Runs `body` with exclusive access to the value. Keep it short: never call out, never wait.
  package func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try storage.withLock(body)
  }
}
