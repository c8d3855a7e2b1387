internal import Dispatch
internal import LupineBase
internal import LupineEngine
internal import LupineIO

/// The process's engine: started by whoever needs it first, ended by whoever asks for that, and started anew by whoever needs one later.
enum SharedEngine {
  private struct State: Sendable {
    /// Nil also while none could be started: a shortage of descriptors passes.
    var engine: Engine?
    /// Those whose end somebody waits for.
    var ending: [Engine] = []
  }

  private static let state = Locked(State())

  /// Whoever asks for the end while another one waits for it waits as well. Not by the lock of `state`, which the engine's thread takes for sessions that are
  /// made by what its end cancels.
  private static let joining = DispatchQueue(label: "lupine.shutdown")

  static func get() throws(IOError) -> Engine {
    try state.withLock { (state) throws(IOError) in
      if let engine = state.engine { return engine }
      let engine = try Engine.start(name: "lupine")
      state.engine = engine
      return engine
    }
  }

  /// Whether it is the one that new sessions get. What was left for it before it was asked is carried out.
  static func isCurrent(_ engine: Engine) -> Bool { state.withLock { $0.engine === engine } }

  /// Cancels what is under way on the engine, ends it and waits for its thread; does nothing if there is none.
  ///
  /// - Returns: false, and nothing is done, on that very thread, which cannot wait for itself.
  static func shutDown() -> Bool {
    let known: [Engine]? = state.withLock { state in
      var all = state.ending
      if let engine = state.engine { all.append(engine) }
      guard !all.contains(where: { $0.loop.isCurrent }) else { return nil }
      state.engine = nil
      state.ending = all
      return all
    }
    guard let ending = known else { return false }
    // One that another caller has waited for by now is gone, and its end is no second one.
    joining.sync { for engine in ending { engine.shutdown() } }
    state.withLock { state in
      state.ending.removeAll { engine in ending.contains { $0 === engine } }
    }
    return true
  }
}
