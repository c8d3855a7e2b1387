internal import LupineBase
public import LupineSession

/// Collects exchanges for an archive, from one `RecordingTransport` or several.
public final class ArchiveRecorder: Sendable {
  /// How much is kept. What exceeds it is left out, and the entry or the archive says so in a comment. Of a response's body the beginning is
  /// kept; of a request's body nothing, so that a replay takes any in its place.
  public struct Limits: Sendable, Equatable {
    /// Bytes of one body, request's or response's. Default 16 MiB.
    public var bodyBytes = 16 << 20
    /// Bytes of all bodies. Default 256 MiB.
    public var totalBodyBytes = 256 << 20
    /// Exchanges. Default 100,000.
    public var entries = 100_000

    /// The defaults.
    public init() {}
  }

  private struct State {
    /// In the order in which the exchanges began; nil: under way.
    var entries: [HTTPArchive.Entry?] = []
    /// What came before the last attempt of an exchange, by its place.
    var attempts: [Int: [HTTPArchive.Entry]] = [:]
    var attemptCount = 0
    var bodyBytes = 0
    var dropped = 0
    /// What reads files, by the places of their entries.
    var files: [Int: Task<Void, Never>] = [:]
  }

  let limits: Limits
  let sensitiveFields: Set<String>
  private let state = Locked(State())

  /// - Parameter sensitiveFields: names of fields that are secrets besides the known ones; see `HTTPArchive.json(redactingSecrets:)`.
  public init(limits: Limits = Limits(), sensitiveFields: Set<String> = []) {
    self.limits = limits
    self.sensitiveFields = sensitiveFields
  }

  /// What has ended so far, in the order in which it began, the attempts of an exchange one after the other. Waits for files that were request
  /// bodies to be read, also of exchanges that end meanwhile.
  public func archive() async -> HTTPArchive {
    // A task is forgotten by whoever has waited for it: others may wait for it as well, and more may come.
    while let (index, file) = state.withLock({ $0.files.first }) {
      await file.value
      state.withLock { $0.files[index] = nil }
    }
    return state.withLock { state in
      var archive = HTTPArchive()
      for (index, entry) in state.entries.enumerated() {
        if let entry { archive.entries += (state.attempts[index] ?? []) + [entry] }
      }
      if state.dropped > 0 { archive.comment = "\(state.dropped) more exchanges were not kept" }
      return archive
    }
  }

  /// How many exchanges have begun and not ended: they are not in the archive yet. One that is cancelled ends soon, and not at once. May be read from any
  /// thread.
  public var unfinishedCount: Int { state.withLock { state in state.entries.count { $0 == nil } } }

  /// A place for an exchange that begins; nil: there is none left.
  func reserve() -> Int? {
    state.withLock { state in
      guard state.entries.count + state.attemptCount < limits.entries else {
        state.dropped += 1
        return nil
      }
      state.entries.append(nil)
      return state.entries.count - 1
    }
  }

  /// Whether so many more bytes of a body may be kept.
  func takeRoom(_ count: Int) -> Bool {
    state.withLock { state in
      guard count <= limits.totalBodyBytes - state.bodyBytes else { return false }
      state.bodyBytes += count
      return true
    }
  }

  /// Gives back what was taken for a body that is not kept after all.
  func returnRoom(_ count: Int) {
    state.withLock { $0.bodyBytes -= count }
  }

  /// Keeps attempts of an exchange, oldest first, as far as there are places left.
  func record(attempts: [HTTPArchive.Entry], of index: Int) {
    let places = state.withLock { state in
      let places = min(attempts.count, max(0, limits.entries - state.entries.count - state.attemptCount))
      state.attemptCount += places
      state.dropped += attempts.count - places
      return places
    }
    let kept = attempts.prefix(places).map { fitting($0) }
    state.withLock { $0.attempts[index] = kept }
  }

  /// The entry, without the body of its request if there is no room for that.
  private func fitting(_ entry: HTTPArchive.Entry) -> HTTPArchive.Entry {
    guard let body = entry.request.body, body.count > limits.bodyBytes || !takeRoom(body.count) else { return entry }
    var entry = entry
    entry.request.body = nil
    entry.comment = entry.comment ?? HTTPArchive.Entry.cutBodyComment
    return entry
  }

  /// Keeps an exchange. A body that is a file is read meanwhile.
  func record(_ entry: HTTPArchive.Entry, at index: Int, body: LupineSession.Request.Body) {
    // Streams took their room as they passed.
    let entry = body.hasStream ? entry : fitting(entry)
    let isFile =
      switch body {
      case .none, .bytes, .stream: false
      case .file: true
      case .segments: !body.hasStream
      }
    // Both at once: whoever finds the entry waits for its file. The task finds it behind this lock.
    state.withLock { state in
      state.entries[index] = entry
      if isFile { state.files[index] = read(body, at: index) }
    }
  }

  private func read(_ body: LupineSession.Request.Body, at index: Int) -> Task<Void, Never> {
    Task.detached { [self] in
      var kept: [UInt8]?
      do throws(SessionError) {
        let bytes = try await body.collect(upTo: limits.bodyBytes)
        if takeRoom(bytes.count) { kept = bytes }
      } catch {
        // What is gone is no longer than what is kept: its length is there.
        guard error.code == .bodyTooLarge else { return }
      }
      keep(kept, at: index)
    }
  }

  /// - Parameter body: nil: there was no room for it.
  private func keep(_ body: [UInt8]?, at index: Int) {
    state.withLock { state in
      guard var entry = state.entries[index] else { return }
      entry.request.body = body
      if body == nil { entry.comment = entry.comment ?? HTTPArchive.Entry.cutBodyComment }
      state.entries[index] = entry
    }
  }
}
