/// A few threads for calls on files, which block for as long as the disk likes.
///
/// Jobs start in the order of submission but run beside each other: whoever needs one file's jobs in order submits the next when the
/// one before has completed, as `InputFile` does.
package final class FileThreads: Sendable {
  private let threads: WorkerThreads

  /// Makes the pool; its threads are made on demand and end after a while of idleness.
  package init(maximumThreads: Int = 2, idleMilliseconds: Int32 = 10_000) throws(IOError) {
    threads = try WorkerThreads(name: "lupine-file", maximum: maximumThreads, idleMilliseconds: idleMilliseconds)
  }

  /// Threads that exist now.
  package var threadCount: Int { threads.threadCount }

  /// Runs `job` on a thread of the pool, then `completion` on `loop`. If the loop has ended by then, the completion is let go.
  package func run<Value: Sendable>(
    on loop: EventLoop, _ job: @escaping @Sendable () throws(IOError) -> Value,
    completion: @escaping @Sendable (Result<Value, IOError>) -> Void
  ) {
    run(job) { result in
      loop.submit { completion(result) }
    }
  }

  /// Runs `job` on a thread of the pool, then `completion` there too; keep it short.
  package func run<Value: Sendable>(
    _ job: @escaping @Sendable () throws(IOError) -> Value,
    completion: @escaping @Sendable (Result<Value, IOError>) -> Void
  ) {
    do throws(IOError) {
      try threads.submit {
        do throws(IOError) {
          completion(.success(try job()))
        } catch {
          completion(.failure(error))
        }
      }
    } catch {
      completion(.failure(error))
    }
  }

  /// Takes no more jobs, runs those that wait, and returns when all threads are gone. Do not call it on a loop.
  package func stop() {
    threads.stop()
  }
}
