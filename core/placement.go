package core

// ProviderAuto lets placement choose.
const ProviderAuto = "auto"
