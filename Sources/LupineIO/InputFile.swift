internal import LupineBase

/// Reads a file from front to back, on file threads, for a loop, one chunk ahead of its user. Lives on the loop.
///
/// Invariants: at most one job is under way, at most one chunk waits, at most one `next` is unanswered.
package final class InputFile {
  private let file: File
  private let threads: FileThreads
  private let loop: EventLoop
  private let chunkSize: Int
  private var offset: Int64
  private let end: Int64
  private var isBusy = false
  private var ready: Result<[UInt8], IOError>?
  private var waiting: ((Result<[UInt8], IOError>) -> Void)?
  private var isCancelled = false

  /// Makes a reader of `range`, or of everything from the front to where the file ends when it is read.
  package init(
    _ file: File, range: Range<Int64>? = nil, chunkSize: Int = 128 * 1024, threads: FileThreads, loop: EventLoop
  ) {
    precondition(chunkSize > 0, "a chunk needs room")
    self.file = file
    self.threads = threads
    self.loop = loop
    self.chunkSize = chunkSize
    offset = range?.lowerBound ?? 0
    end = range?.upperBound ?? .max
  }

  /// Gives the next chunk, at once if it is there. An empty one is the end: of the range, or of the file before it.
  package func next(_ completion: @escaping (Result<[UInt8], IOError>) -> Void) {
    precondition(waiting == nil && !isCancelled, "one chunk at a time")
    if let ready {
      deliver(ready, completion)
    } else {
      waiting = completion
      if !isBusy { startJob() }
    }
  }

  /// A read that is under way ends by itself; nothing is called any more.
  package func cancel() {
    isCancelled = true
    waiting = nil
    ready = nil
  }

  private func deliver(_ chunk: Result<[UInt8], IOError>, _ completion: (Result<[UInt8], IOError>) -> Void) {
    // The end and an error stay, so that asking again gives the same.
    if case .success(let bytes) = chunk, !bytes.isEmpty {
      ready = nil
      startJob()
    }
    completion(chunk)
  }

  private func startJob() {
    let count = Int(min(Int64(chunkSize), end - offset))
    let (file, place) = (file, offset)
    isBusy = true
    let reference = LoopConfined(self)
    threads.run(on: loop) { () throws(IOError) in
      count == 0 ? [] : try file.read(at: place, count: count)
    } completion: { result in
      reference.onLoop.jobEnded(result)
    }
  }

  private func jobEnded(_ chunk: Result<[UInt8], IOError>) {
    isBusy = false
    guard !isCancelled else { return }
    if case .success(let bytes) = chunk { offset += Int64(bytes.count) }
    ready = chunk
    if let waiting {
      self.waiting = nil
      deliver(chunk, waiting)
    }
  }
}
