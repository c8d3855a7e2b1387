internal import Dispatch

/// Calls back once, later, on some thread, unless it is let go of before: most questions are answered long before their time is over.
///
/// `@unchecked`: a source of Dispatch may be used from any thread, and is not said to be `Sendable`.
final class AnswerTimer: @unchecked Sendable {
  private let source: any DispatchSourceTimer

  /// Nil: so far ahead, 36 years, that nobody will wait for it.
  init?(after nanoseconds: Int64, _ work: @escaping @Sendable () -> Void) {
    guard nanoseconds < 1 << 60 else { return nil }
    source = DispatchSource.makeTimerSource(queue: .global())
    source.schedule(deadline: .now() + .nanoseconds(Int(nanoseconds)))
    source.setEventHandler(handler: work)
    source.activate()
  }

  deinit { source.cancel() }
}
