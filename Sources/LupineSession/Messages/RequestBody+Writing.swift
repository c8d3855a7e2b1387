internal import LupineBase
internal import LupineEngine
internal import LupineIO

extension Request.Body {
  /// Writes the body into a new file: what can be sent once can then be sent again. A stream that is not replayable is used up.
  ///
  /// - Parameter path: must not exist. The file can be read by its owner only (0600); it is removed again if the body cannot be written in full.
  /// - Throws: `SessionError`: `.fileFailed` when the file exists or cannot be written, else as `forEachChunk`.
  public func write(to path: String) async throws(SessionError) {
    let file = try await Self.onFileThread("cannot create \(path)") { () throws(IOError) in try File.create(path) }
    do throws(SessionError) {
      try await write(into: file, path)
    } catch {
      try? await Self.onFileThread("cannot remove \(path)") { () throws(IOError) in try File.remove(path) }
      throw error
    }
  }

  private func write(into file: File, _ path: String) async throws(SessionError) {
    let state = Locked<(offset: Int64, failure: SessionError?)>((0, nil))
    try await forEachChunk { chunk in
      let offset = state.withLock { $0.offset }
      do throws(SessionError) {
        try await Self.onFileThread("cannot write \(path)") { () throws(IOError) in try file.write(chunk, at: offset) }
        state.withLock { $0.offset += Int64(chunk.count) }
        return !Task.isCancelled
      } catch {
        state.withLock { $0.failure = error }
        return false
      }
    }
    if let failure = state.withLock({ $0.failure }) { throw failure }
    if Task.isCancelled { throw SessionError(.cancelled, phase: .file, message: "the task was cancelled") }
    try await Self.onFileThread("cannot write \(path)") { () throws(IOError) in try file.flush() }
  }
}
