internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// What may be changed in a manager at any time. It refers to nobody: the session's delegate and the tasks hold it without keeping the manager or the
/// session alive.
final class ManagerSettings: Sendable {
  struct Values {
    var hooks = SessionManagerHooks() { didSet { findPlain() } }
    private(set) var responseSerializer: any ResponseSerializer = JSONResponseSerializer()
    /// Reads JSON for the `async` verbs: the response serializer if it is one of JSON.
    private(set) var json = JSONResponseSerializer()
    private var acceptsPlainJSON = true
    /// Decodes for the `async` verbs.
    var decoder = PlainJSON.decoder { didSet { ownsDecoder = false } }
    /// Whether the decoder was made here, for somebody who asked for it, and not given.
    private(set) var ownsDecoder = false
    /// Those of the response serializer, looked for when it is set and not for each response.
    private(set) var acceptableStatusCodes: Set<Int>? = ResponseValidation.successfulStatusCodes {
      didSet {
        acceptsSuccess = acceptableStatusCodes?.isSuperset(of: ResponseValidation.successfulStatusCodes) ?? true
      }
    }
    /// Whether they are all among those, so that nothing need be looked up for them.
    private var acceptsSuccess = true

    /// Whether a response may have a status.
    func isAcceptable(_ status: Int) -> Bool {
      if acceptsSuccess, status >= 200, status <= 299 { return true }
      return acceptableStatusCodes?.contains(status) ?? true
    }

    /// Whether a response of `application/json` may have a status, and be that.
    func isAcceptableJSON(_ status: Int) -> Bool { acceptsPlainJSON && isAcceptable(status) }

    var completionQueue: DispatchQueue? { didSet { notificationQueue = .forNotifications(on: completionQueue) } }
    /// Follows from it.
    private(set) var notificationQueue = DispatchQueue.main
    var completionGroup: DispatchGroup?
    var progressQueue: DispatchQueue?
    var retrying = RetryLoop() {
      didSet {
        retryingChanges &+= 1
        findPlain()
      }
    }
    /// How often it was set: interceptors cannot be compared.
    private(set) var retryingChanges = 0
    /// Whether an `async` call is one exchange that tells nobody: no hook of it is set, nobody is asked about requests. Found out when these are set.
    private(set) var isPlain = true
    var securityPolicy = SecurityPolicy.default
    var reachability = NetworkReachabilityManager.shared

    /// - Parameter codes: the serializer's, which it is asked for before: outside of the lock, as it may be somebody else's and ask the manager.
    fileprivate mutating func take(_ serializer: any ResponseSerializer, accepting codes: Set<Int>?) {
      responseSerializer = serializer
      acceptableStatusCodes = codes
      if let serializer = serializer as? JSONResponseSerializer {
        json = serializer
      } else {
        json = JSONResponseSerializer()
        json.acceptableStatusCodes = codes
      }
      acceptsPlainJSON = json.acceptableContentTypes?.contains("application/json") ?? true
    }

    mutating func own(_ decoder: JSONDecoder) {
      self.decoder = decoder
      ownsDecoder = true
    }

    private mutating func findPlain() {
      isPlain = hooks.asyncCallbacks.isEmpty && hooks.callDidComplete == nil && retrying.isTrivial
    }
  }

  let values = LockedStorage(Values())

  func change(_ body: (inout Values) -> Void) { values.withLock { body(&$0) } }

  /// Sets a value. The former one is let go of outside the lock: it may hold the last reference to something that asks the manager when it goes.
  func exchange<Value>(_ path: any WritableKeyPath<Values, Value> & Sendable, _ value: Value) {
    replace { $0[keyPath: path] = value }
  }

  /// The same for the response serializer, and for what follows from it.
  func setSerializer(_ serializer: any ResponseSerializer) {
    let codes =
      (serializer as? any HTTPResponseSerializing).map { $0.validation.acceptableStatusCodes }
      ?? ResponseValidation.successfulStatusCodes
    replace { $0.take(serializer, accepting: codes) }
  }

  private func replace(_ change: (inout Values) -> Void) {
    let former = values.withLock { values -> Values in
      let former = values
      change(&values)
      return former
    }
    withExtendedLifetime(former) {}
  }

  /// See `SessionManager.updateInterceptors(_:)`.
  func updateInterceptors<Failure: Error>(
    _ change: (inout [any RequestInterceptor]) throws(Failure) -> Void
  ) throws(Failure) {
    while true {
      let (former, changes) = values.withLock { ($0.retrying.interceptors, $0.retryingChanges) }
      var interceptors = former
      try change(&interceptors)
      let new = interceptors
      let isCurrent = values.withLock { values in
        guard values.retryingChanges == changes else { return false }
        values.retrying.interceptors = new
        return true
      }
      withExtendedLifetime(former) {}
      if isCurrent { return }
    }
  }

  /// The decoder, for somebody who may change it: the default, which all managers share, gives its place to one of the manager's own.
  var ownDecoder: JSONDecoder {
    values.withLock { values in
      if values.decoder === PlainJSON.decoder { values.own(JSONDecoder()) }
      return values.decoder
    }
  }

  /// One hook, or what follows from them; not a copy of them all.
  func hook<Value: Sendable>(_ read: (SessionManagerHooks) -> Value) -> Value { values.withLock { read($0.hooks) } }

  /// Takes over what decides about requests and responses; not who is told, and where.
  func copyRules(of other: ManagerSettings) {
    let (serializer, decoder, ownsDecoder, policy, retrying) = other.values.withLock {
      ($0.responseSerializer, $0.decoder, $0.ownsDecoder, $0.securityPolicy, $0.retrying)
    }
    if ownsDecoder { change { $0.own(decoder.copied()) } } else { exchange(\.decoder, decoder) }
    setSerializer(serializer)
    exchange(\.securityPolicy, policy)
    exchange(\.retrying, retrying)
  }

  // MARK: Trust

  /// Whether servers are looked at here: the session's own check costs no callback.
  var decidesTrust: Bool {
    values.withLock { $0.hooks.connectionChallengeHandler != nil || $0.securityPolicy.needsEvaluation }
  }

  /// The error that a task ends with: that of the handler which refused the server, if one did.
  func explained(_ error: SessionError) -> any Error {
    (error.underlying as? ChallengeRefusal)?.error ?? error
  }
}

/// Carries the error of a challenge handler through the session.
struct ChallengeRefusal: Error, CustomStringConvertible {
  let error: any Error
  var description: String { "\(error)" }
}
