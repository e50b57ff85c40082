package core

// ProviderAuto means that placement chooses the provider.
const ProviderAuto = "auto"
