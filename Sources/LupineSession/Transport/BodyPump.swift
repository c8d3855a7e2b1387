internal import LupineBase
internal import LupineEngine

/// Moves the chunks of a `BodyStream` into a channel, one at a time, as the socket makes room.
enum BodyPump {
  /// - Parameters:
  ///   - makeStream: the caller's: it is called where it may wait, and not on the loop.
  ///   - names: of the fields that may follow the chunks.
  static func start(
    _ makeStream: @escaping @Sendable () -> BodyStream, announced names: [String] = [], into channel: BodyChannel
  ) {
    let task = Task.detached {
      // Where the request is over already, nobody is asked for a stream that nobody reads.
      guard !Task.isCancelled else { return }
      do {
        let stream = makeStream()
        if stream.trailers != nil {
          try await send(stream, announced: names, into: channel)
        } else {
          try await stream.run { chunk in await write(chunk, into: channel) }
          channel.finish()
        }
      } catch {
        channel.fail(error)
      }
    }
    // A producer may wait for something that never comes; nobody needs it any more.
    channel.onClose { task.cancel() }
  }

  /// Waits until there is room for more; false when nobody reads any more.
  private static func write(_ chunk: [UInt8], into channel: BodyChannel) async -> Bool {
    await withCheckedContinuation { continuation in
      channel.write(chunk) { continuation.resume(returning: $0) }
    }
  }

  /// What `start` does with a stream that something follows, unless the channel is closed before its end.
  private static func send(
    _ stream: BodyStream, announced names: [String], into channel: BodyChannel
  ) async throws {
    try stream.checkTrailers(announced: names)
    let isStopped = Locked(false)
    try await stream.run { chunk in
      let wantsMore = await write(chunk, into: channel)
      if !wantsMore { isStopped.withLock { $0 = true } }
      return wantsMore
    }
    guard !isStopped.withLock({ $0 }), !Task.isCancelled else { return }
    channel.finish(trailers: try await stream.trailerFields(announced: names))
  }
}
