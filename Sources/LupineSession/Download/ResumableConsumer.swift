/// Takes a body that may be gone on with later.
protocol ResumableConsumer: ResponseConsumer {
  /// Calls back with what the download can go on from, once it is over; at once if it is.
  func whenOver(_ waiter: @escaping ResumeDataWaiters.Waiter)
}

/// Who wants to know what a download can go on from when it is over.
struct ResumeDataWaiters {
  typealias Waiter = @Sendable (ResumeData?) -> Void

  /// What a download that is over can go on from.
  struct Answer {
    var value: ResumeData?
  }

  private var waiters: [Waiter] = []
  private var answer: Answer?

  /// The answer if there is one: then the waiter is not kept.
  mutating func add(_ waiter: @escaping Waiter) -> Answer? {
    if answer == nil { waiters.append(waiter) }
    return answer
  }

  /// The download is over. Gives those who waited, to be told outside of the lock.
  mutating func end(_ resumeData: ResumeData?) -> [Waiter] {
    defer { waiters = [] }
    answer = Answer(value: resumeData)
    return waiters
  }
}
