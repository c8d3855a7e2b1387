extension Session {
  /// The thread of the engine as an executor of tasks: nil for another transport.
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
}
