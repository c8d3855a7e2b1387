internal import LupineIO

extension Session {
  /// The thread of the engine as an executor of tasks, of several engines that of the first: nil for another transport.
  ///
  /// A task that prefers it awaits requests without a hop to another thread and back, which is most of what `await` costs:
  ///
  /// ```swift
  /// try await withTaskExecutorPreference(session.engineExecutor) {
  ///   let (data, response) = try await session.data(for: request)
  ///   …                                              // on the engine's thread: short, and never blocking
  /// }
  /// ```
  ///
  /// All connections of the engine wait while such a task runs between two suspensions.
  public var engineExecutor: (any TaskExecutor)? {
    (transport as? EngineTransport)?.loop
  }

  /// The threads of all engines of the session as executors of tasks (`SessionConfiguration.EngineChoice.several`): one where there is one engine, the same as
  /// `engineExecutor`; none for another transport.
  ///
  /// A task stays on the executor that it prefers, whichever engine carries its request. One whose request goes over a connection of another engine is
  /// resumed by a hop, as tasks elsewhere are. Where requests are spread, that of a task on one of these executors goes over a connection of its
  /// engine if one idles.
  public var engineExecutors: [any TaskExecutor] {
    guard let engine = transport as? EngineTransport else { return [] }
    let loops = engine.group?.loops ?? [engine.loop]
    return loops
  }

  /// Ends the engine that sessions of the process share (`SessionConfiguration.EngineChoice.shared`), and returns when its thread is gone and its connections
  /// are closed: for a program that ends in order, for leak checkers, and before a `fork`. Does nothing where there is no such engine. Blocks: do not call it
  /// where nobody may wait.
  ///
  /// Each task on it ends once, where its completion always comes: with `.cancelled`, or with `.sessionInvalidated` where it was about to begin its next exchange,
  /// such as behind a redirect, a challenge or a cache. What its sessions, of which `Session.shared` and those of `ImageDownloader.default` may be some, begin later
  /// fails with `.sessionInvalidated`, on some thread; a task that waits for a network does so when it goes on. A session that is made later starts a new engine,
  /// also while this one ends. Engines of sessions' own are not touched. A file that is just being sent may keep its socket for a tenth of a second longer.
  ///
  /// Any thread but the engine's.
  ///
  /// - Throws: `SessionError` with `.badRequest` on the engine's thread, as in completions of `data(for:completion:)` and on `engineExecutor`: it cannot wait
  ///   for itself, and nothing is done.
  public static func shutDownSharedEngine() throws(SessionError) {
    guard SharedEngine.shutDown() else {
      throw SessionError(
        .badRequest, phase: .prepare,
        message: "the shared engine cannot be shut down on its own thread, which would wait for itself")
    }
  }
}
