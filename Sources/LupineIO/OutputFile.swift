internal import LupineBase

/// Writes a file from its front to its back, on file threads, for a loop. Lives on the loop.
///
/// States: open → finishing (`finish`) → ended; from each → failed, or cancelled. Invariants: at most one job is under way; what arrives
/// meanwhile is gathered and goes with the next; after an error nothing is written any more.
package final class OutputFile {
  private enum State {
    case open
    case finishing(synchronize: Bool, (Result<Int64, IOError>) -> Void)
    case ended
  }

  private let file: File
  private let threads: FileThreads
  private let loop: EventLoop
  private var state = State.open
  private var gathered: [UInt8] = []
  private var underWay = 0
  private var offset: Int64
  private var isBusy = false

  /// Why writing failed, if it did.
  package private(set) var error: IOError?

  /// Called on the loop whenever `pendingBytes` has fallen, or `error` was set.
  package var onProgress: (() -> Void)?

  /// Makes a writer that starts at `offset`.
  package init(_ file: File, at offset: Int64 = 0, threads: FileThreads, loop: EventLoop) {
    self.file = file
    self.threads = threads
    self.loop = loop
    self.offset = offset
  }

  /// Bytes given but not yet written: compare with a watermark, and stop the source above it.
  package var pendingBytes: Int { gathered.count + underWay }

  /// Takes bytes. Never blocks, and keeps whatever it is given: watch `pendingBytes`. After an error they are dropped.
  package func write(_ bytes: Span<UInt8>) {
    precondition(isOpen, "written to after finish or cancel")
    guard error == nil, bytes.count > 0 else { return }
    unsafe bytes.withUnsafeBufferPointer { unsafe gathered.append(contentsOf: $0) }
    if !isBusy { startJob() }
  }

  /// Waits for everything to be written and calls `completion` on the loop with the offset where the file ends now, or the error.
  package func finish(synchronize: Bool = false, _ completion: @escaping (Result<Int64, IOError>) -> Void) {
    precondition(isOpen, "finished twice")
    state = .finishing(synchronize: synchronize, completion)
    if !isBusy { startJob() }
  }

  /// Drops what waits. A write that is under way ends by itself; nothing is called any more. The file stays.
  package func cancel() {
    state = .ended
    gathered = []
    onProgress = nil
  }

  private var isOpen: Bool {
    if case .open = state { true } else { false }
  }

  private func startJob() {
    let synchronize: Bool?
    if case .finishing(let wanted, _) = state { synchronize = wanted } else { synchronize = nil }
    let (bytes, place, file) = (gathered, offset, file)
    gathered = []
    underWay = bytes.count
    isBusy = true
    let reference = LoopConfined(self)
    threads.run(on: loop) { () throws(IOError) in
      if !bytes.isEmpty { try file.write(bytes, at: place) }
      if let synchronize {
        if synchronize { try file.synchronize() }
        try file.flush()
      }
    } completion: { result in
      reference.onLoop.jobEnded(result, wasLast: synchronize != nil)
    }
  }

  private func jobEnded(_ result: Result<Void, IOError>, wasLast: Bool) {
    isBusy = false
    switch result {
    case .success: offset += Int64(underWay)
    case .failure(let error):
      self.error = error
      gathered = []
    }
    underWay = 0
    switch state {
    case .ended: break
    case .open:
      if !gathered.isEmpty { startJob() }
      onProgress?()
    case .finishing(_, let completion):
      if error == nil, !wasLast { return startJob() }
      state = .ended
      onProgress = nil
      completion(error.map { .failure($0) } ?? .success(offset))
    }
  }
}
